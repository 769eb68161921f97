"""Tenants: a schema for each, set by the database backend as it makes a cursor."""
