"""The modules that jobs run by name."""
