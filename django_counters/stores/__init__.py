"""Where numbers are kept."""
