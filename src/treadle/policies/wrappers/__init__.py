"""Features to put around any policy; the table of their names is in policies/registry.py."""
