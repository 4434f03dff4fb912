"""The agent of one machine: launches, changes, adopts and reports attempts."""
