"""The range that a command's last run confirmed: one more run as expected makes no range wider.

What is expected of a command rests on farther kinds until it has run itself. Its first run is then
believed most, and one run alone says little: the range could become wider although the run was as
expected. So the range before such a run is kept, and no later one is wider until a run misses it.
"""

from treadle.models.learning.expectation import EDGE, Expectation
from treadle.models.learning.kind_history import Confirmed, History
from treadle.models.lengths.distribution import Lengths


def confirmed_by(expected: Expectation, size: int, seconds: float) -> Confirmed | None:
    """What a whole run on so many devices confirms; None: it was not as expected, or unknown."""
    low_s, high_s, _ = expected.span
    if not expected.known or not low_s <= seconds <= high_s:
        return None
    return Confirmed(size, low_s * EDGE, high_s / EDGE)


def no_wider(length: Lengths, share: float, history: History | None, asked: int) -> Lengths:
    """The distribution, or what of it is within the confirmed range if its own would be wider."""
    known = None if history is None else history.confirmed
    if known is None or known.size != asked:
        return length
    low_s, high_s, _ = length.span(share)
    if high_s * EDGE - low_s / EDGE <= known.high_s * EDGE - known.low_s / EDGE:
        return length
    return length.within(known.low_s, known.high_s)
