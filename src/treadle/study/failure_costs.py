"""The cost of failed attempts: by class, by reason, by size.

A reason is a name from the Philly study's table (as in simulated failures), the name of a rule of
`treadle classify`, the name of a failure that leaves no log (to launch, of a limit), or text to
match against those rules. A missing reason counts as unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from treadle.core.retry import FailureClass
from treadle.failures.classifier import classify
from treadle.failures.retry import LAUNCHING
from treadle.failures.rules import RuleTable, shipped
from treadle.reports.metrics import SIZE_BUCKETS, percentile, size_bucket
from treadle.reports.run_history import FailedAttempt
from treadle.sim.faults import CLASSES as STUDIED
from treadle.study.record import Record

CLASSES: Sequence[FailureClass] = ("deterministic", "transient", "resource", "unknown")
EARLY_S = (120.0, 300.0, 1200.0)  # the study's bounds of what a trial run would catch
NO_REASON = "no reason recorded"


@dataclass(frozen=True, slots=True)
class Failed:
    """Attempts that failed and have a class, a reason or a size in common."""

    name: str
    kind: FailureClass | None  # of a reason
    attempts: int
    jobs: int
    gpu_h: float
    share: float  # of the device time of all failed attempts
    ran_p50_s: float | None
    ran_p90_s: float | None


@dataclass(frozen=True, slots=True)
class Failures:
    """All attempts that failed."""

    recorded: bool  # False: failures were not recorded, so none in the record proves nothing
    attempts: int
    jobs: int
    lost_jobs: int  # failed for good
    repeats: int  # attempts that failed after an earlier failure of the same job
    gpu_h: float
    share: float | None  # of all device time held
    repeats_gpu_h: float
    early: Mapping[str, float | None]  # seconds -> share of attempts that failed within that time
    by_class: tuple[Failed, ...]
    by_reason: tuple[Failed, ...]  # most device time first
    by_size: tuple[Failed, ...]


def failures(record: Record, rules: RuleTable | None = None) -> Failures:
    found = record.recorder.failures
    judge = Judge(rules or shipped())
    judged = [_Judged(failure, *judge(failure.reason)) for failure in found]
    whole_s = sum(failure.device_s for failure in found)
    held_s = sum(history.service_s for history in record.recorder.histories.values())
    repeats = [failure for failure in found if failure.number > 1]
    histories = record.recorder.histories

    def group(name: str, kind: FailureClass | None, members: Iterable[_Judged]) -> Failed:
        return _failed(name, kind, [one.failure for one in members], whole_s)

    names = {(one.name, one.kind) for one in judged}
    reasons = [
        group(name, kind, (one for one in judged if (one.name, one.kind) == (name, kind)))
        for name, kind in sorted(names)
    ]
    sizes = [
        group(
            size,
            None,
            (o for o in judged if size_bucket(histories[o.failure.job].spec.asked) == size),
        )
        for size in SIZE_BUCKETS
    ]
    return Failures(
        recorded=record.has_failures or bool(found),
        attempts=len(found),
        jobs=len({failure.job for failure in found}),
        lost_jobs=sum(1 for history in histories.values() if history.status == "failed"),
        repeats=len(repeats),
        gpu_h=whole_s / 3600.0,
        share=whole_s / held_s if held_s else None,
        repeats_gpu_h=sum(failure.device_s for failure in repeats) / 3600.0,
        early={f"{limit_s:g}": _early(found, limit_s) for limit_s in EARLY_S},
        by_class=tuple(
            group(kind, kind, (one for one in judged if one.kind == kind)) for kind in CLASSES
        ),
        by_reason=tuple(sorted(reasons, key=lambda one: -one.gpu_h)),
        by_size=tuple(one for one in sizes if one.attempts),
    )


class _Judged(NamedTuple):
    failure: FailedAttempt
    name: str  # of the reason
    kind: FailureClass


class Judge:
    """The name and class of a reason; each reason is classified once."""

    def __init__(self, rules: RuleTable) -> None:
        self._rules = rules
        self._known: dict[str, tuple[str, FailureClass]] = {
            **{name: (name, verdict.kind.value) for name, verdict in LAUNCHING.items()},
            **{rule.name: (rule.name, rule.kind.value) for rule in rules.rules},
            **{name: (name, kind) for name, kind in STUDIED.items()},
            "": (NO_REASON, "unknown"),
        }

    def __call__(self, reason: str) -> tuple[str, FailureClass]:
        if reason not in self._known:
            verdict = classify(reason, rules=self._rules)
            self._known[reason] = (verdict.rule, verdict.kind.value)
        return self._known[reason]


def _failed(
    name: str, kind: FailureClass | None, members: Sequence[FailedAttempt], whole_s: float
) -> Failed:
    device_s = sum(failure.device_s for failure in members)
    ran_s = sorted(failure.ran_s for failure in members)
    return Failed(
        name,
        kind,
        attempts=len(members),
        jobs=len({failure.job for failure in members}),
        gpu_h=device_s / 3600.0,
        share=device_s / whole_s if whole_s else 0.0,
        ran_p50_s=percentile(ran_s, 50),
        ran_p90_s=percentile(ran_s, 90),
    )


def _early(found: Sequence[FailedAttempt], limit_s: float) -> float | None:
    if not found:
        return None
    return sum(1 for failure in found if failure.ran_s <= limit_s) / len(found)
