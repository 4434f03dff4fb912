"""The analysis of one record, as one value."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from treadle.core.errors import InvalidInputError
from treadle.failures.rules import RuleTable
from treadle.reports.json_numbers import finite
from treadle.reports.metrics import summarise
from treadle.study.failure_costs import Failures, failures
from treadle.study.record import Record
from treadle.study.spells import Spell, spells
from treadle.study.usage import Usage, usage
from treadle.study.waits import Waits, waits


@dataclass(frozen=True, slots=True)
class End:
    """Jobs with the same final status."""

    status: str
    jobs: int
    share: float  # of jobs
    gpu_h: float
    gpu_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The statistics of a record. The field names are the keys of the JSON object."""

    name: str
    how: str
    jobs: int
    nodes: int | None  # that were there at some time; None: not recorded
    devices: int | None
    span_s: float  # first submission to the last moment of the record
    ends: tuple[End, ...]  # most device time first
    waits: tuple[Waits, ...]
    usage: Usage
    failures: Failures
    spells: tuple[Spell, ...]  # each policy's time, where the run switched its policy
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """The JSON object; a number that is not finite becomes null."""
        return {key: finite(value) for key, value in asdict(self).items()}


def analyse(record: Record, *, rules: RuleTable | None = None) -> Analysis:
    """Analyse a record; a pure function."""
    recorder = record.recorder
    histories = recorder.histories
    if not histories:
        raise InvalidInputError(f"{record.workload.source} holds no jobs to analyse")
    summary = summarise(
        recorder,
        policy="",
        devices=record.cluster.device_count,
        decisions=0,
        decide_cpu_s=0.0,
        never_fit=dict.fromkeys(record.unfit, ""),
    )
    first_at = min(history.submitted_at for history in histories.values())
    return Analysis(
        name=record.workload.name,
        how=record.how,
        jobs=len(histories),
        nodes=len(record.nodes) if record.has_cluster else None,
        devices=sum(each.device_count for each in record.nodes) if record.has_cluster else None,
        span_s=max(recorder.series.at[-1] - first_at, 0.0),
        ends=_ends(record),
        waits=waits(record),
        usage=usage(record, summary),
        failures=failures(record, rules),
        spells=_spells(record),
        notes=record.notes,
    )


def _ends(record: Record) -> tuple[End, ...]:
    """Jobs by final status: the trace's if it has one, else the run's."""
    histories = record.recorder.histories
    counts: dict[str, int] = {}
    device_s: dict[str, float] = {}
    for identity, history in histories.items():
        status = record.statuses.get(identity, history.status)
        counts[status] = counts.get(status, 0) + 1
        device_s[status] = device_s.get(status, 0.0) + history.service_s
    return tuple(
        End(
            status,
            counts[status],
            counts[status] / len(histories),
            device_s[status] / 3600.0,
            _share(device_s, status),
        )
        for status in sorted(counts, key=lambda status: (-device_s[status], status))
    )


def _spells(record: Record) -> tuple[Spell, ...]:
    if len(record.policies) < 2:
        return ()
    return spells(record.recorder, record.policies, record.recorder.series.at[-1])


def _share(parts: Mapping[str, float], name: str) -> float:
    whole = sum(parts.values())
    return parts[name] / whole if whole else 0.0
