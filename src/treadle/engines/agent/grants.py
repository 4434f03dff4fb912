"""When the jobs of a node may go on, and when they may begin elsewhere: the rule, without any I/O.

A node holds a grant: until when its jobs may go on, by its own clock. Its cluster renews it for as
long as the node is a member. A renewal counts from the moment at which the node asked, however late
the answer comes. A grant that has run out is never renewed: the next one has another number, and
jobs that outlived the old one, because their machine slept perhaps, end when they wake.

A node that joins its cluster anew goes on with its grant only at the word of a controller that is
in charge of it (`kept`): another one may be about to believe that its jobs are gone.

The controller counts from when the cluster said that the node left: nothing is renewed after that.
"""

from math import inf, isinf
from typing import NamedTuple

from treadle.engines.context import FAILOVER_S

CONFIRM_EVERY_S = 3.0
DOUBTED_AFTER_S = 10.0  # without a renewal nothing is begun on the node
MARGIN_S = 5.0  # until supervisors that look now and then have killed what they had
DRIFT = 0.001  # clocks of two machines differ by no more than this share of the time that passes


class Grant(NamedTuple):
    """What a node holds."""

    number: int = 0
    until: float = 0.0  # by the clock of the node
    member: str = ""  # which joining of the node it is renewed for

    def is_over(self, now: float) -> bool:
        return now >= self.until

    def renewed(self, now: float, asked_at: float, failover_s: float, member: str) -> "Grant":
        """The cluster said, when it was asked at that moment, that this joining is a member."""
        if self.is_over(now):
            return Grant(self.number + 1, asked_at + failover_s, member)
        return self if self.member != member else self._replace(until=asked_at + failover_s)

    def kept(self, now: float, member: str) -> "Grant":
        """A controller is in charge, and knows what runs: what it did not name has been stopped."""
        return self if self.is_over(now) else self._replace(member=member)


def limit(failover_s: float | None) -> float:
    """None: never."""
    return inf if failover_s is None else failover_s


def finite(failover_s: float) -> float | None:
    """As it is written down and sent."""
    return None if isinf(failover_s) else failover_s


def doubted_after_s(failover_s: float) -> float:
    return min(DOUBTED_AFTER_S, failover_s * 2 / 3)


def confirm_every_s(failover_s: float) -> float:
    return min(CONFIRM_EVERY_S, failover_s / 5)


def gone_after_s(failover_s: float, margin_s: float = MARGIN_S) -> float:
    """From when the node left until nothing of it runs that has not joined meanwhile."""
    return failover_s * (1 + DRIFT) + margin_s


def rebooted(before: str, now: str) -> bool:
    """Whether the name of this machine (`Agent.machine`) says that it was that one, started again.

    Without the number of its hardware, it may be another one that reads the same disk.
    """
    old, new = before.split("/"), now.split("/")
    if len(old) != 3 or len(new) != 3 or not all(old + new):
        return False
    return (old[0], old[2]) == (new[0], new[2]) and old[1] != new[1]


def longest_s(own: float, known: float | None) -> float:
    """Under which a node may have been left. known: what was written down of it; None: nothing."""
    return max(own, FAILOVER_S if known is None else known)
