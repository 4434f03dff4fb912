"""Commands for studies: simulation, comparison, traces, replications."""
