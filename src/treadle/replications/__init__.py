"""Replications of published experiments: measured and published figures, with the difference."""
