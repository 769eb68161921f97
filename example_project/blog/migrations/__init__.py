"""Migrations of the blog."""
