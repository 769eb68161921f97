"""What a change does beside its total."""
