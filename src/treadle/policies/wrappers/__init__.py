"""Features that any policy can wear; the table of their names is in policies/registry.py."""
