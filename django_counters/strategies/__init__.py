"""How one number is written and read: one file per strategy, which declares it, too."""
