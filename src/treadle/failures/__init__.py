"""Why a job failed, read from the end of its log, and whether another try can help.

tail.py        the end of a log file, cleaned, within bounds
lines.py       what a line says once colours, bars and prefixes are gone
pattern.py     literal text with `*`; matching takes linear time
rules.py       the table of signatures: shipped in rules.yaml, extended by users
verdict.py     what is answered
classifier.py  text and exit status in, verdict out
memory.py      what happened to each job, user and node so far
"""

from treadle.failures.classifier import classify, classify_ranks
from treadle.failures.failure_history import Decision, Fixed, Memory, Patience
from treadle.failures.rules import RuleTable, shipped
from treadle.failures.tail import tail
from treadle.failures.verdict import Advice, Evidence, Exit, Kind, Verdict

__all__ = [
    "Advice",
    "Decision",
    "Evidence",
    "Exit",
    "Fixed",
    "Kind",
    "Memory",
    "Patience",
    "RuleTable",
    "Verdict",
    "classify",
    "classify_ranks",
    "shipped",
    "tail",
]
