"""Verbs for users of a machine: they talk to the daemon."""
