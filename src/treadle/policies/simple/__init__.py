"""Policies of one file each."""
