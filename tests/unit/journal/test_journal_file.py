"""A journal as a file: written step by step, read back, cut off, replayed."""

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from treadle.core.actions import Start
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.errors import InvalidInputError
from treadle.core.events import JobFinished, JobStarted, JobSubmitted
from treadle.core.scheduler import Observer, Scheduler
from treadle.journal import journal as module
from treadle.journal.codec import Opened, encode
from treadle.journal.journal import JournalWriter, Step, read, replay
from treadle.models.scaling import ScalingModel
from treadle.sim.costs import Constant
from treadle.sim.engine import SimulatedEngine
from treadle.sim.faults import Faults, FaultSettings
from treadle.sim.run import Simulation
from treadle.testing.builders import job, policy
from treadle.testing.checks import check

CLUSTER = Cluster.grid(2, 2)
OPENED = Opened("test", CLUSTER, {"policy": "fifo"})


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(encode(0.0, OPENED) + b"\n" + b"".join(lines))
    return path


def recorded(path: Path, name: str, until: float) -> Simulation:
    """A busy run with losses and restarts, written to a journal up to a moment."""
    jobs = [
        job(f"j{i}", size=1 + i % 4, length_s=20.0 + i, at=3.0 * i, retries=1) for i in range(12)
    ]
    faults = FaultSettings(seed=2, node_mtbf_s=60.0, node_repair_s=9.0, checkpoint_every_s=5.0)
    engine = SimulatedEngine(
        jobs, ScalingModel(), cost=Constant(1.0), faults=Faults(faults, CLUSTER)
    )
    with path.open("wb") as file:
        writer = JournalWriter(file, OPENED)
        run = Simulation(Scheduler(policy(name), CLUSTER), engine, observers=(writer,))
        run.run(until)
    return run


@pytest.mark.parametrize("name", ["srtf", "tiresias?limits=9:40&promote=1"])
def test_a_replayed_scheduler_equals_the_one_that_wrote_the_journal(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "run.jsonl"
    for until in (10.0, 33.0, 70.0, inf):
        first = recorded(path, name, until).scheduler
        journal = read(path)
        again = replay(journal, policy(name))
        check(again)
        assert not journal.cut_off
        assert journal.opened == OPENED
        assert dict(again.jobs) == dict(first.jobs)
        assert again.tenancy.tenants == first.tenancy.tenants
        assert (again.wake_at, again.decisions) == (first.wake_at, first.decisions)
        assert again.cluster == first.cluster


@pytest.mark.parametrize("until", [10.0, 70.0])
def test_a_replayed_scheduler_gives_the_orders_the_first_would_have_given(
    tmp_path: Path, until: float
) -> None:
    path = tmp_path / "run.jsonl"
    run = recorded(path, "srtf", until)
    again = replay(read(path), policy("srtf"))
    twin = Simulation(again, run.engine.fork())
    twin.now = run.now
    both: list[list[object]] = [[], []]
    for log, simulation in zip(both, (run.fork(), twin), strict=True):
        simulation.observe(_into(log))
        simulation.run()
    assert both[0] == both[1]
    assert both[0]


def test_a_step_is_its_facts_then_its_decision_then_its_orders(tmp_path: Path) -> None:
    allocation = Allocation((Device("n0", 0),))
    start = Start(0, "a", allocation)
    path = tmp_path / "run.jsonl"
    with path.open("wb") as file:
        writer = JournalWriter(file, OPENED)
        scheduler = Scheduler(policy("fifo"), CLUSTER)
        for now, event in (
            (0.0, JobSubmitted(job("a"))),
            (0.0, JobStarted("a", 0, 0.0, 1.0)),
            (9.0, JobFinished("a", 0)),
        ):
            writer(now, [event], scheduler.step([event], now), scheduler)
    assert read(path).steps == [
        Step(0.0, [JobSubmitted(job("a"))], [start], inf),
        Step(0.0, [JobStarted("a", 0, 0.0, 1.0)], [], None),
        Step(9.0, [JobFinished("a", 0)], [], inf),
    ]


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    whole = encode(1.0, JobFinished("a", 0)) + b"\n"
    path = write(tmp_path / "run.jsonl", whole, whole[:-20])
    journal = read(path)
    assert journal.cut_off
    assert journal.steps == [Step(1.0, [JobFinished("a", 0)])]


def refusal(path: Path) -> str:
    with pytest.raises(InvalidInputError) as refused:
        read(path)
    return str(refused.value)


def test_time_does_not_go_back(tmp_path: Path) -> None:
    lines = (encode(at, JobFinished("a", 0)) + b"\n" for at in (2.0, 1.0))
    assert refusal(write(tmp_path / "run.jsonl", *lines)) == (
        "run.jsonl line 3: the time goes back from 2 s; is it two journals in one?"
    )


def test_any_line_that_is_gone_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorded(path, "srtf", 70.0)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) > 60
    for number in range(2, len(lines)):
        path.write_bytes(b"".join(lines[: number - 1] + lines[number:]))
        assert refusal(path) == (
            f"run.jsonl line {number}: it was written as line {number + 1}; "
            "lines before it were removed or added"
        )
    path.write_bytes(b"".join(lines[:50] + lines[59:]))
    assert refusal(path).startswith("run.jsonl line 51: it was written as line 60; ")
    path.write_bytes(b"".join(lines + lines))
    assert refusal(path).startswith(f"run.jsonl line {len(lines) + 1}: it was written as line 1; ")


def test_journals_of_another_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode(0.0, replace(OPENED, format=3)) + b"\n")
    assert refusal(path) == ("run.jsonl line 1: a journal of format 3; this version reads 2")


def test_a_bad_line_is_named_by_its_number(tmp_path: Path) -> None:
    good = encode(1.0, JobFinished("a", 0)) + b"\n"
    path = write(tmp_path / "run.jsonl", good, b'{"at":2,"kind":"Stop","id":1}\n', good)
    with pytest.raises(InvalidInputError) as refusal:
        read(path)
    assert str(refusal.value) == ("run.jsonl line 3: Object missing required field `job`")


def test_what_is_not_a_journal_is_asked_whether_it_is_one(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(encode(0.0, JobFinished("a", 0)) + b"\n")
    with pytest.raises(InvalidInputError) as refusal:
        read(path)
    assert str(refusal.value) == "other.jsonl line 1: expected the kind Opened; is it a journal?"
    path.write_bytes(b"")
    with pytest.raises(InvalidInputError) as refusal:
        read(path)
    assert str(refusal.value) == ("other.jsonl line 1: Input data was truncated; is it a journal?")


def test_a_line_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_MAX", 400)
    path = write(tmp_path / "run.jsonl", b'{"at":1,"kind":"' + b"x" * 500 + b'"}\n')
    with pytest.raises(InvalidInputError) as refusal:
        read(path)
    assert str(refusal.value) == "run.jsonl line 2: longer than 400 bytes"


def _into(log: list[object]) -> Observer:
    return lambda now, _events, actions, _scheduler: log.append((now, actions))
