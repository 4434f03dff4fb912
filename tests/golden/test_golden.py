"""A small fixed workload under every policy, as a text that a person can read.

A change of behaviour shows as a diff of these texts. If it is meant, rewrite them with
`TREADLE_UPDATE=1 pytest tests/golden` and let the diff be read with the change that caused it.
"""

from collections.abc import Sequence
from difflib import unified_diff
from hashlib import blake2b
from itertools import groupby
from os import environ
from pathlib import Path

import pytest

from treadle.core.actions import Action, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster
from treadle.core.events import Event, JobFailed, JobFinished, JobSubmitted
from treadle.core.job import JobSpec
from treadle.core.scheduler import Scheduler
from treadle.journal.codec import encode
from treadle.models.scaling import ScalingModel
from treadle.models.stages import StageTimes
from treadle.models.tokens import TokenModel
from treadle.policies import registry
from treadle.policies.base.placement import placement
from treadle.sim.costs import Constant
from treadle.sim.engine import SimulatedEngine
from treadle.sim.run import Simulation
from treadle.testing.builders import job

HERE = Path(__file__).parent
LINES_MAX = 60
CLUSTER = Cluster.grid(2, 4)
RESTART_S = 2.0
# Policies that think in hours are given the measure of this workload.
VARIANTS = {
    "las": "las?margin_s=5&quantum_s=10",
    "tiresias": "tiresias?limits=60:200&promote=2",
    "max-min": "max-min?quantum_s=20",
    "themis": "themis?lease_s=20",
    "aiturbo": "aiturbo?every_s=15&limits=60:200&patience_s=30&restart_s=2",
}
WORKLOAD = [
    job("ada", size=4, length_s=60.0),
    job("bob", size=2, length_s=90.0),
    job("cy", size=1, length_s=30.0, at=5.0),
    job("dot", size=8, length_s=20.0, at=10.0),
    job("eve", size=4, sizes=(1, 2, 4), length_s=40.0, at=15.0),
    job("fay", size=1, length_s=10.0, at=20.0),
    job("gus", size=2, sizes=(1, 2), length_s=25.0, at=20.0),
    job("hal", size=3, length_s=15.0, at=40.0),
    job("ivy", size=6, length_s=10.0, at=70.0),
]


class Tale:
    """Writes a run down, moment by moment, and adds its journal up."""

    def __init__(self, jobs: Sequence[JobSpec]) -> None:
        self._jobs = {spec.id: spec for spec in jobs}
        self._lines: list[tuple[float, str]] = []
        self._digest = blake2b(digest_size=8)
        self._took_s: dict[str, float] = {}

    def __call__(
        self, now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        for line in (*events, *actions):
            self._digest.update(encode(now, line))
        for event in events:
            self._happened(event, now)
        self._lines += [(now, _order(action)) for action in actions]

    def _happened(self, event: Event, now: float) -> None:
        if isinstance(event, JobSubmitted):
            self._lines.append((now, f"+{event.spec.id}"))
        elif isinstance(event, JobFinished | JobFailed):
            self._lines.append((now, f"-{event.job}"))
            self._took_s[event.job] = now - self._jobs[event.job].submit_at

    def text(self, name: str) -> str:
        mean_s = sum(self._took_s.values()) / len(self._took_s)
        moments = [
            f"{now:>6g}  {', '.join(what for _, what in group)}"
            for now, group in groupby(self._lines, key=lambda line: line[0])
        ]
        last_s = self._lines[-1][0]
        head = (
            f"{name}: {len(self._took_s)} jobs, {mean_s:.1f} s on average, the last at {last_s:g} s"
        )
        return "\n".join([head, f"journal {self._digest.hexdigest()}", "", *moments, ""])


def _order(action: Action) -> str:
    if isinstance(action, Stop):
        return f"stop {action.job}"
    return f"{type(action).__name__.lower()} {action.job} {_devices(action.allocation)}"


def _devices(allocation: Allocation) -> str:
    numbers: dict[str, str] = {}
    for device in allocation.devices:
        numbers[device.node] = numbers.get(device.node, "") + str(device.number)
    turn = f" in turn {allocation.turn}" if allocation.turn else ""
    return " ".join(f"{node}:{digits}" for node, digits in numbers.items()) + turn


def log_of(name: str) -> str:
    model = TokenModel(ScalingModel.on(CLUSTER), StageTimes())
    policy = registry.policy(VARIANTS.get(name, name), placement("consolidate"), model)
    tale = Tale(WORKLOAD)
    engine = SimulatedEngine(WORKLOAD, model, cost=Constant(RESTART_S))
    Simulation(Scheduler(policy, CLUSTER), engine, observers=(tale,)).run()
    return tale.text(VARIANTS.get(name, name))


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_a_policy_does_what_it_did(name: str) -> None:
    path, found = HERE / f"{name}.txt", log_of(name)
    assert len(found.splitlines()) <= LINES_MAX, "too long to be read; make the workload smaller"
    if environ.get("TREADLE_UPDATE"):
        path.write_text(found)
    expected = path.read_text() if path.exists() else ""
    if found != expected:
        lines = unified_diff(
            expected.splitlines(), found.splitlines(), f"{path.name} was", "is", lineterm="", n=1
        )
        pytest.fail(
            "\n".join([*lines, "", "if that is meant: TREADLE_UPDATE=1 pytest tests/golden"])
        )


def test_every_text_belongs_to_a_policy() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(registry.BUILT_IN)
