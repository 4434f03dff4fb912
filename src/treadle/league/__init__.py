"""The league: every policy on a list of workloads, beside lower bounds."""
