"""Capabilities that a project adds to ``INSTALLED_APPS`` one by one; the core imports none."""
