"""Jobs from submission to end: records, gates, launching, recovery."""
