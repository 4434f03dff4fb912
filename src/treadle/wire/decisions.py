"""What the policy decided lately, and why, as users see it."""

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.wire.jobs import described, described_map


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionChange:
    """What a decision changed for one job."""

    job: str
    # start, stop, grow, shrink, move, replan, or join and leave (it shares its devices from then
    # on, or no more).
    kind: str
    before: tuple[str, ...]  # devices
    after: tuple[str, ...]
    name: str = described("", "What its user calls the job.")
    plan: str = described("", "Its execution plan from then on, of jobs that have one.")
    beside: tuple[str, ...] = described((), "The other jobs on its devices from then on.")
    because: str = described(
        "",
        "What led to the change: who asked for it, who let go of the devices, who gets them. Empty:"
        " that is not known.",
    )
    code: str = described("", "The code of what led to it.")
    numbers: Mapping[str, object] = described_map("The numbers of the code.")
    order: int | None = described(
        None,
        "The id of the order that carries it out: of the Start, Change or Stop among the events, "
        "in its body. Null: a daemon decided that did not keep it.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision that changed something, or failed."""

    id: int  # ascending
    at: float  # seconds since 1970
    policy: str
    cpu_ms: float  # of the processor
    events: tuple[str, ...]  # what happened since the decision before, in words
    changes: tuple[DecisionChange, ...]
    running: int  # jobs with devices, after it
    waiting: int  # as in Status
    free: int  # devices
    error: str = ""  # of the policy: nothing was changed


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPage:
    """The newest decisions of this daemon, oldest first."""

    decisions: tuple[Decision, ...]
    next: int  # the id to go on after
    others: int  # decisions since then that changed nothing
    since_at: float  # from when on they are known
