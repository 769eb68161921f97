"""How one region asks another one: through its database, or over HTTP."""
