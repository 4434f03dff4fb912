"""Verbs for studies: simulation, comparison, traces, replications."""
