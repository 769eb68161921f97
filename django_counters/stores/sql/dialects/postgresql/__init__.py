"""PostgreSQL 14 and newer."""
