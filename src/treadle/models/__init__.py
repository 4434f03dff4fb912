"""How fast would a job run: pure functions of a job's profile and what it is given."""
