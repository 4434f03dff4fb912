"""Training that can be resized, moved and stopped while it runs."""
