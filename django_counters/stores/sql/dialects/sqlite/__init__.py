"""SQLite 3.35 and newer, for development: one writer at a time, so one shard is enough."""
