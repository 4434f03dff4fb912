"""Launches go to agents in batches: no message is too long for the way that it takes.

How long a launch is, its user decides, by the command and the environment. So batches are measured
in bytes as they are sent.
"""

from collections.abc import Sequence

from treadle.core.errors import EngineError
from treadle.core.launch import Launch
from treadle.core.wording import gib_text
from treadle.engines.agent.messages import Wanted
from treadle.engines.agent.wire import encode


def checked(launch: Launch, bytes_max: int | None) -> Launch:
    """The same, if it can be sent; raises EngineError if it is too long."""
    length = 0 if bytes_max is None else len(encode(launch))
    if bytes_max is not None and length > bytes_max:
        raise EngineError(
            f"its command and environment take {gib_text(length / 2**30)} as they are sent, and at "
            f"most {gib_text(bytes_max / 2**30)} can be sent to a node",
            retryable=False,
        )
    return launch


def batches(wanted: Sequence[Wanted], bytes_max: int | None) -> list[tuple[Wanted, ...]]:
    """At least one, which may be empty. bytes_max: of one; None: any number."""
    found: list[tuple[Wanted, ...]] = []
    rest = tuple(wanted)
    while rest:
        count = first_batch(rest, bytes_max)
        found.append(rest[:count])
        rest = rest[count:]
    return found or [()]


def first_batch(wanted: Sequence[Wanted], bytes_max: int | None) -> int:
    """How many, from the first on, go together; at least one of those that there are."""
    if bytes_max is None:
        return len(wanted)
    taken = count = 0
    for each in wanted:
        taken += 0 if each.launch is None else len(encode(each.launch))
        if count and taken > bytes_max:
            break
        count += 1
    return count
