"""The results of runs: metrics, tables, figures and an HTML page."""
