"""The Philly study for anybody's cluster: what a record says, and what each guideline would save.

record.py       what happened: simulated, or replayed from a journal
as_recorded.py  the same from a trace that says when its jobs ran, and where
waits.py        how long jobs waited, by size and cause
usage.py        what became of device time, by size and spread
failing.py      what attempts cost that failed, by class and reason
convergence.py  what was spent after the loss had all but settled
analysis.py     all of it, as one value
guidelines.py   the same jobs with and without each guideline, by simulation
telling.py      the value in words and tables
"""
