"""How long jobs take, as distributions: what is known of a length, and with how much doubt.

distribution.py   Lengths: a distribution of seconds; Span: a range with its coverage
survival.py       observations, also cut off ones, as a distribution (Kaplan-Meier)
histogram.py      many lengths in few numbers
prior.py          what is assumed on a machine on which nothing has run yet
coverage.py       whether printed ranges hold what they promise, and how wide they must be
gittins.py        the order in which to run jobs of which only the distribution is known
indexing.py       the index of a job, by what a belief knows of its length
"""
