"""Numbers kept in the project's databases."""
