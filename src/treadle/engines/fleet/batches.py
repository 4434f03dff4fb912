"""Launches go to agents in batches: no message is too long for the way that it takes.

How long a launch is, its user decides, by the command and the environment. So batches are measured
in bytes as they are sent.
"""

from collections.abc import Iterable, Sequence

from treadle.core.actions import Action
from treadle.core.errors import EngineError
from treadle.core.launch import Launch
from treadle.core.wording import gib_text
from treadle.engines.agent.messages import Ordered, encode

BYTES_MAX = 8 << 20  # of one launch, and of those that go together

Order = tuple[Action, Launch | None]


def checked(launch: Launch) -> Launch:
    """The same, if it can be sent; raises EngineError if it is too long."""
    length = len(encode(launch))
    if length > BYTES_MAX:
        raise EngineError(
            f"its command and environment take {gib_text(length / 2**30)} as they are sent, and at "
            f"most {gib_text(BYTES_MAX / 2**30)} can be sent to a node",
            retryable=False,
        )
    return launch


def first_batch(orders: Sequence[Order]) -> int:
    """How many orders, from the first on, go together; at least one of those that there are."""
    return _fitting([launch for _, launch in orders])


def batches(launches: Sequence[Ordered]) -> list[tuple[Ordered, ...]]:
    """At least one, which may be empty."""
    found: list[tuple[Ordered, ...]] = []
    rest = tuple(launches)
    while rest:
        count = _fitting(rest)
        found.append(rest[:count])
        rest = rest[count:]
    return found or [()]


def _fitting(launches: Iterable[Ordered | Launch | None]) -> int:
    taken = count = 0
    for launch in launches:
        taken += 0 if launch is None else len(encode(launch))
        if count and taken > BYTES_MAX:
            break
        count += 1
    return count
