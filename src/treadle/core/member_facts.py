"""What goes into the membership machine, and what comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from treadle.core.member_messages import Answer, Member, Order

Place = tuple[str, ...]  # the devices of one member


class Phase(StrEnum):
    STARTING = "starting"  # no group yet
    RUNNING = "running"
    WARMING = "warming"  # the group trains, newcomers are not ready yet
    SWITCHING = "switching"
    DRAINING = "draining"  # no more changes: it finishes or stops
    ENDED = "ended"


TERM_BITS = 20  # of a version: above them is the term of the coordinator

# -- inputs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """The newest order: a member on each of these places. An older number is ignored."""

    order: int
    places: tuple[Place, ...]
    plan: str = ""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The coordinator before is gone for good, and left these members.

    It is the first fact of all. What they said of themselves before is heard again after it.
    """

    places: Mapping[Member, Place]
    group: tuple[Member, ...]  # of these, those that are ready or train, in rank order
    term: int  # of the new coordinator; above 0, and that of the one before
    plan: str


@dataclass(frozen=True, slots=True)
class Heard:
    member: Member
    answer: Answer


@dataclass(frozen=True, slots=True)
class Gone:
    """The process of this member has ended."""

    member: Member


@dataclass(frozen=True, slots=True)
class Stop:
    """All members write a checkpoint and leave together."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline may have passed."""


Input = Target | TakeOver | Heard | Gone | Stop | Tick

# -- outputs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Launch:
    member: Member
    place: Place
    joins: bool  # the others train already


@dataclass(frozen=True, slots=True)
class Dismiss:
    """End this process: it is not wanted, or does not answer."""

    member: Member
    why: str
    at_once: bool = False  # it hangs: asking it to end is of no use


@dataclass(frozen=True, slots=True)
class Send:
    member: Member
    order: Order


@dataclass(frozen=True, slots=True)
class Changed:
    """The members of the group changed; `order` is the newest target if it is reached."""

    order: int | None
    version: int
    group: tuple[Member, ...]
    step: int
    stall_s: float  # the longest time that a member which trained before and after stood still
    why: str = "order"  # or "start", "loss", or "restart": all began again from what was saved
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The target cannot be reached; the group stays as it is."""

    order: int
    why: str
    newcomer: Member = ""  # that could not join


@dataclass(frozen=True, slots=True)
class Lost:
    member: Member


@dataclass(frozen=True, slots=True)
class Ended:
    finished: bool  # the training loop came to its end
    why: str


Output = Launch | Dismiss | Send | Changed | Refused | Lost | Ended


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the machine waits, and how much it bears."""

    ready_s: float = 120.0  # for a newcomer to become ready; at the start there is no limit
    answer_s: float = 20.0  # for the answer to `Prepare`, which a thread of the library gives
    leave_s: float = 20.0  # for a process that was told to leave to end
    least: int = 1  # members below which the attempt fails
    failures: int = 5  # groups in a row that break although no process ended
    restarts: int = 3  # of all members, since a part of the state was lost
