"""Everything that happened, one JSON line each: written as it happens, read back to replay it."""
