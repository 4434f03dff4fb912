"""The policies of a run, one after another: a run may switch its policy at any moment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from treadle.reports.metrics import mean
from treadle.reports.recorder import Recorder


class PolicyFrom(NamedTuple):
    """A policy took charge at a moment."""

    at: float
    policy: str


@dataclass(frozen=True, slots=True)
class Spell:
    """The time during which one policy was in charge."""

    policy: str
    from_s: float  # on the run's clock
    to_s: float
    submitted: int  # jobs, in this time
    finished: int
    failed: int
    cancelled: int
    wait_mean_s: float | None  # until the first start, of jobs that first started in this time
    gpu_h: float  # held in this time


def in_turn(changes: Sequence[PolicyFrom]) -> list[PolicyFrom]:
    """Without changes from a policy to itself, or that were replaced at the same moment."""
    found: list[PolicyFrom] = []
    for change in changes:
        if found and found[-1].at == change.at:
            found.pop()
        if not found or found[-1].policy != change.policy:
            found.append(change)
    return found


def spells(recorder: Recorder, changes: Sequence[PolicyFrom], end_at: float) -> tuple[Spell, ...]:
    """Each policy's time and what happened in it. Together they count every job once."""
    turns = in_turn(changes)
    ends = [*(turn.at for turn in turns[1:]), end_at]
    return tuple(
        _spell(recorder, turn, to_at, first=not place, last=place == len(turns) - 1)
        for place, (turn, to_at) in enumerate(zip(turns, ends, strict=True))
    )


def _spell(recorder: Recorder, turn: PolicyFrom, to_at: float, *, first: bool, last: bool) -> Spell:
    def inside(at: float | None) -> bool:
        return at is not None and (first or at >= turn.at) and (last or at < to_at)

    histories = recorder.histories.values()
    ended = Counter(history.status for history in histories if inside(history.ended_at))
    waits = [
        history.first_start_at - history.submitted_at
        for history in histories
        if history.first_start_at is not None and inside(history.first_start_at)
    ]
    held_s = sum(
        max(0.0, min(hold.to_at, to_at) - max(hold.from_at, turn.at)) * hold.allocation.size
        for hold in recorder.holds
    )
    return Spell(
        policy=turn.policy,
        from_s=turn.at,
        to_s=to_at,
        submitted=sum(inside(history.submitted_at) for history in histories),
        **{status: ended[status] for status in ("finished", "failed", "cancelled")},
        wait_mean_s=mean(waits),
        gpu_h=held_s / 3600.0,
    )
