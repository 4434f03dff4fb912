"""The record of one run, simulated or replayed from a journal: the input of an analysis."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import msgspec

from treadle.core.cluster import Cluster, Node
from treadle.core.errors import InvalidInputError, TreadleError
from treadle.core.events import JobSubmitted, NodeJoined, NodeLost
from treadle.core.job import JobId
from treadle.core.wording import several
from treadle.journal.journal import Journal, Step
from treadle.journal.journal import read as read_journal
from treadle.reports.recorder import Recorder
from treadle.sim.experiment import Experiment, prepare, record_step
from treadle.sim.settings import Settings
from treadle.study.spells import PolicyFrom, in_turn
from treadle.traces.workload import Workload

NOWHERE = ""  # the node name of devices whose node is not recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of a workload."""

    how: str  # where the record comes from, as part of a sentence
    workload: Workload
    cluster: Cluster  # at the beginning
    recorder: Recorder  # closed
    unfit: Collection[JobId] = ()  # jobs that the cluster cannot hold
    # How jobs ended according to the trace; a simulation does not know that.
    statuses: Mapping[JobId, str] = field(default_factory=dict)
    has_causes: bool = True  # why jobs waited is known
    has_cluster: bool = True  # on what the jobs ran is known
    has_progress: bool = True  # how fast jobs progressed is known
    has_failures: bool = True  # attempts that failed are known, if there were any
    notes: tuple[str, ...] = ()
    policies: Sequence[PolicyFrom] = ()  # where the run may have switched its policy
    capacity: Sequence[tuple[float, int]] = ()  # (from when, devices), where that changed
    joined: Sequence[Node] = ()  # after the beginning

    @property
    def nodes(self) -> Sequence[Node]:
        """All that were there at some time."""
        names = {node.name for node in self.joined}
        return [*(node for node in self.cluster.nodes if node.name not in names), *self.joined]


def simulated(experiment: Experiment, workload: Workload) -> Record:
    """The record of a finished experiment."""
    settings = experiment.settings
    experiment.recorder.close(experiment.simulation.now)
    return Record(
        how=f"simulated under {settings.policy}, as the trace does not say when its jobs ran",
        workload=workload,
        cluster=experiment.cluster,
        recorder=experiment.recorder,
        unfit=frozenset(experiment.simulation.scheduler.unfit),
        statuses=workload.statuses,
        has_failures=bool(settings.faults.job_failures),
        notes=(*workload.notes, *experiment.notes()),
    )


def replayed(path: Path) -> Record:
    """The record of a journal."""
    journal = read_journal(path)
    settings = _settings(path, journal.opened.settings)
    workload = _workload(path, journal)
    experiment = prepare(workload, journal.opened.cluster, settings)
    _replay(path, journal, experiment)
    policies = _policies(journal, settings)
    cut_off = "the journal ends in the middle of a line, which is left out"
    return Record(
        how=f"replayed from a journal{_under(journal, settings, policies)}",
        workload=workload,
        cluster=journal.opened.cluster,
        recorder=experiment.recorder,
        unfit=frozenset(experiment.simulation.scheduler.unfit),
        has_progress=not _is_live(journal),
        notes=(cut_off,) if journal.cut_off else (),
        policies=policies,
        capacity=_capacity(journal) if _is_live(journal) else (),
        joined=_joined(journal),
    )


def _is_live(journal: Journal) -> bool:
    """Whether jobs ran on a machine: then the work of most of them is an estimate."""
    return bool(journal.opened.settings.get("live"))


def _policies(journal: Journal, settings: Settings) -> list[PolicyFrom]:
    first = journal.opened.settings.get("first_policy")
    found = [PolicyFrom(0.0, first if isinstance(first, str) else settings.policy)]
    changes = (step for step in journal.steps if step.policy is not None)
    found += [PolicyFrom(step.now, step.policy.policy) for step in changes if step.policy]
    return in_turn(found)


def _under(journal: Journal, settings: Settings, policies: Sequence[PolicyFrom]) -> str:
    if len(policies) > 1:
        return f", under {several(len(policies), 'policy', 'policies')} in turn"
    if _is_live(journal):
        return f", under {policies[0].policy}"
    return f", under {settings.policy}" if "policy" in journal.opened.settings else ""


def _capacity(journal: Journal) -> list[tuple[float, int]]:
    """How many devices there were from when on."""
    nodes = {node.name: node.device_count for node in journal.opened.cluster.nodes}
    found = [(0.0, sum(nodes.values()))]
    for step in journal.steps:
        for event in step.events:
            if isinstance(event, NodeJoined):
                nodes[event.node.name] = event.node.device_count
            elif isinstance(event, NodeLost):
                nodes.pop(event.node, None)
        if (total := sum(nodes.values())) != found[-1][1]:
            found.append((step.now, total))
    return found


def _joined(journal: Journal) -> list[Node]:
    """Nodes that came later, as they were at last."""
    events = (event for step in journal.steps for event in step.events)
    return list({e.node.name: e.node for e in events if isinstance(e, NodeJoined)}.values())


def _replay(path: Path, journal: Journal, experiment: Experiment) -> None:
    held_back: Mapping[int, int] = {}
    for step in journal.steps:
        if step.wake_at is not None:
            held_back = step.held_back
        try:
            _take(step, held_back, experiment)
        except (TreadleError, AssertionError, LookupError):
            # The journal is input: any error it causes is the user's, not a bug.
            raise InvalidInputError(
                f"{path} line {step.line}: the events at second {step.now:g} contradict the lines "
                "before them; are lines missing?"
            ) from None
    experiment.recorder.close(journal.steps[-1].now)


def _take(step: Step, held_back: Mapping[int, int], experiment: Experiment) -> None:
    scheduler = experiment.simulation.scheduler
    scheduler.replay(step.events, step.actions, step.now, wake_at=step.wake_at)
    record_step(experiment.recorder, step.now, step.events, step.actions, scheduler, held_back)


def _workload(path: Path, journal: Journal) -> Workload:
    specs = {
        event.spec.id: event.spec
        for step in journal.steps
        for event in step.events
        if isinstance(event, JobSubmitted)
    }
    if not specs:
        raise InvalidInputError(f"{path} holds no jobs; expected at least one to be submitted")
    return Workload.of(path.name, specs.values(), path=str(path))


def _settings(path: Path, written: Mapping[str, object]) -> Settings:
    """The settings of the run; unknown keys are ignored."""
    written = {**written, "live": False}  # The policy's name has what is around it already.
    faults = written.get("faults")
    if isinstance(faults, Mapping):  # JSON has no infinity, and no setting of faults may be empty.
        whole = {key: inf if value is None else value for key, value in faults.items()}
        written = {**written, "faults": whole}
    try:
        return msgspec.convert(dict(written), Settings)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{path} line 1: the settings are not Treadle's: {error}") from None
