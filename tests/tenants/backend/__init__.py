"""A backend that sets the schema of the tenant before each cursor, as django-tenants does."""
