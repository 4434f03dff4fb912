"""Published experiments, run again: measured beside published, with the difference."""
