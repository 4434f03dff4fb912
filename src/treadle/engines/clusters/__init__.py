"""Where a fleet runs: this machine, or a Ray cluster."""
