"""What an attempt taught, made of facts alone, so that replaying the journal teaches the same."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from treadle.core.allocation import Pause
from treadle.core.attempt import How, LastProgress
from treadle.core.events import AttemptEnded, JobPaused, JobProgressed, JobStarted
from treadle.core.job import Job, JobId
from treadle.core.sighting import Sighting
from treadle.models.learning.outcome import Outcome
from treadle.models.plans.live_plans import LivePlans

MEASURED_MIN_S = 5.0  # a speed counts if it was measured for so long
_PAUSED = {Pause.FROZEN: "freeze_s", Pause.SUSPENDED: "suspend_s"}  # as costs name them
_WENT_ON = {Pause.FROZEN: "thaw_s", Pause.SUSPENDED: "resume_s"}
SHARED_MIN = 0.1  # sharing for more than this share of its time, its times are not its own


class Attempted(NamedTuple):
    """What the records say of the attempt that ended."""

    size: int
    before_s: float  # seconds of earlier attempts whose work this one built on
    alone: bool  # all the work was done at this size and by these seconds
    over: bool  # the job will not be tried again
    spread: str = ""  # how its devices lay (models/learning/spread.py)
    device_type: str = ""  # of its devices (models/learning/unlike.py)


def of_end(ended: AttemptEnded, attempted: Attempted) -> Outcome | None:
    """What an attempt taught when it ended; None if nothing ran."""
    if ended.started_at is None:
        return None
    done = ended.how is How.EXITED and ended.code == 0
    said = ended.progress
    return Outcome(
        attempted.size,
        attempted.before_s + (ended.ran_s or 0.0),
        whole=done and attempted.alone,
        cut_off=attempted.over and not done and attempted.alone,
        total=None if said is None else _total(said),
        step_s=_step_alone_s(said, ended.seen),
        shared=_shared(ended.seen),
        stages=said.stages if said is not None and said.alone else (),
        seen=ended.seen,
        spread=attempted.spread,
        device_type=attempted.device_type,
    )


def of_pace(
    said: LastProgress, size: int, *, spread: str = "", device_type: str = ""
) -> Outcome | None:
    """How fast a running job goes alone at this size; None if it has not said enough."""
    pace = step_s(said)
    if pace is None or not said.alone:
        return None
    return Outcome(
        size,
        0.0,
        total=_total(said),
        step_s=pace,
        stages=said.stages,
        spread=spread,
        device_type=device_type,
    )


def of_sight(seen: Sighting, size: int) -> Outcome:
    """What a running job was seen to use."""
    return Outcome(size, 0.0, seen=seen)


def of_pause(fact: JobPaused | JobStarted, how: Pause) -> Outcome | None:
    """How long a pause took, or to go on after one; None if not known, or it could not be done."""
    if fact.took_s is None or fact.refused:
        return None
    names = _PAUSED if isinstance(fact, JobPaused) else _WENT_ON
    return Outcome(1, 0.0, took_s=((names[how], fact.took_s),))


def step_s(said: LastProgress) -> float | None:
    """Seconds a step, if that was measured for long enough."""
    if not said.per_s or said.measured_s < MEASURED_MIN_S:
        return None
    return 1.0 / said.per_s


def _step_alone_s(said: LastProgress | None, seen: Sighting | None) -> float | None:
    """Seconds a step while it had its devices to itself."""
    if seen is not None and seen.shared_s > 0:
        return seen.step_s
    return step_s(said) if said is not None and said.alone else None


def _total(said: LastProgress) -> float | None:
    """A float also where a report said 10: what is stored must be what a replay stores."""
    return None if said.total is None else float(said.total)


def _shared(seen: Sighting | None) -> bool:
    return seen is not None and seen.shared_s > SHARED_MIN * (seen.alone_s + seen.shared_s)


def learn_plans(plans: LivePlans, facts: Iterable[object], jobs: Mapping[JobId, Job]) -> None:
    """Take in what jobs say of their models and how fast they are.

    jobs: the scheduler's, once it has taken these facts. It must come before the next decision,
    which goes by what was learned.
    """
    for fact in facts:
        match fact:
            case JobStarted() if (row := jobs.get(fact.job)) is not None:
                plans.meet(row.spec, fact.changes)
            case JobProgressed() if (row := jobs.get(fact.job)) is not None:
                said = fact.progress
                if said is None or not said.alone or fact.action != row.action:
                    continue
                if (seconds := step_s(said)) is not None:
                    plans.observe(row, 1.0 / seconds)
            case _:
                pass
