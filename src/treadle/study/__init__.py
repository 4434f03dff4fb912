"""The Philly study for any cluster: statistics of a run.

record.py             the record of one run: simulated, or replayed from a journal
as_recorded.py        the record of a trace that says when, and perhaps where, its jobs ran
waits.py              how long jobs waited, by size and cause
usage.py              how device time was used, by size and spread
failure_costs.py      the cost of failed attempts, by class and reason
analysis.py           all of this, as one value
analysis_document.py  the analysis as text and tables
whatif.py             a recorded live run, simulated under another policy
"""
