"""What comes from elsewhere: increments that wait outside of the database land in it, once."""
