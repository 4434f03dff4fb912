"""What the API answers and does: commands, queries, reasons, history, accounts, metrics."""
