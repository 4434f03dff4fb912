"""Folders of jobs that are copied from node to node, where these have no file system in common."""
