"""The ledger: each change is an entry. Imported when a setting or a call asks for it."""
