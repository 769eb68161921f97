"""Distinct actors."""
