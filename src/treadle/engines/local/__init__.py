"""The local engine: jobs as processes on this machine."""
