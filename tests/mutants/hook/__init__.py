"""What a process imports first that is to see a mutant."""
