"""Performance models: how fast a job runs, as pure functions of its profile and its devices."""
