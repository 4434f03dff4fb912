"""Job traces: many formats in, one Workload out."""
