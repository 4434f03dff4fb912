"""Why a job failed, read from the end of its log, and whether a retry can help.

tail.py             the end of a log file, cleaned, within bounds
log_lines.py        lines without colours, progress bars and prefixes
pattern.py          literal text with `*`; matching takes linear time
rules.py            the table of signatures: shipped in rules.yaml, extended by users
verdict.py          the result of a classification
classifier.py       text and exit status in, verdict out
failure_history.py  past failures of each job, user and node, and the decision to retry
retry.py            the retry rule that a scheduler uses
"""
