"""A command of which every run was cut off: no estimate is below what its runs have outlived.

Where a command has no whole run, farther kinds say how long it takes, and they know nothing of its
own runs. Runs of one command are alike, so a job of it takes longer than the longest of them.
"""

from math import prod

from treadle.models.learning.commands import Arguments
from treadle.models.learning.expectation import EDGE
from treadle.models.learning.kind_history import History
from treadle.models.lengths.distribution import OUTLIVED, Lengths


def beyond_runs(
    length: Lengths, history: History | None, arguments: Arguments, asked: int
) -> Lengths:
    """The part of a distribution that the runs of a command leave open.

    Runs on fewer devices do not count: on more, the job may be done sooner.
    """
    own = [] if history is None else [run for run in history.seen if run.arguments == arguments]
    if any(run.whole for run in own):
        return length
    # A range is shown that much wider.
    outlived = [(run.seconds or 0.0) * EDGE for run in own if run.size >= asked]
    if not outlived:
        return length
    longest_s = max(outlived)
    if prod(map(length.survival, outlived)) < OUTLIVED:
        # That all of them ran so long is no chance: the command is another sort of job.
        return Lengths((), 1.0, longest_s)
    left = length.given(longest_s)
    points = tuple((at + longest_s, mass) for at, mass in left.points)
    return Lengths(points, left.tail, left.longest_s)
