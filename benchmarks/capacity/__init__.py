"""What one increment costs: processor time of three programs, and bytes that two of them write."""
