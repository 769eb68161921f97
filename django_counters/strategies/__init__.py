"""How one number is written and read: one file per strategy. None knows another."""
