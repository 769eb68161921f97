"""What people read is there in every language that the package speaks."""
