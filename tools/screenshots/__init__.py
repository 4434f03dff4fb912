"""Pictures of the web page, taken from a real daemon that runs a small workload."""
