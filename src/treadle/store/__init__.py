"""What survives a crash: jobs, attempts, the journal and the rest, in SQLite or PostgreSQL."""
