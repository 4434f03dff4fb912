"""Three jobs on two devices, few enough to be computed by hand.

0 s   a (both devices, 10 s) comes and starts
2 s   b (one device, 4 s) and c (one device, 20 s) come and wait
10 s  a finishes, b and c start
14 s  b finishes
30 s  c finishes
"""

import pytest

from treadle.core.actions import Start
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.events import JobFinished, JobStarted, JobSubmitted
from treadle.reports.comparison import Comparison, Run
from treadle.reports.metrics import summarise
from treadle.reports.recorder import Recorder
from treadle.testing.builders import job

D0, D1 = Device("n0", 0), Device("n0", 1)


def _three_jobs(names=("a", "b", "c"), tenants=("red", "blue", "blue")) -> Recorder:
    recorder = Recorder(lambda spec, speed: speed * spec.profile.iteration_s * spec.profile.size)
    a, b, c = names
    one = job(a, length_s=10, size=2, tenant=tenants[0])
    two = job(b, length_s=4, at=2, tenant=tenants[1])
    three = job(c, length_s=20, at=2, tenant=tenants[2])
    recorder.step(0, [JobSubmitted(one)], [Start(0, a, Allocation((D0, D1)))], free=0)
    recorder.step(0, [JobStarted(a, 0, 0, 1)], [], free=0)
    recorder.step(2, [JobSubmitted(two), JobSubmitted(three)], [], free=0)
    starts = [Start(1, b, Allocation((D0,))), Start(2, c, Allocation((D1,)))]
    recorder.step(10, [JobFinished(a, 0)], starts, free=0)
    recorder.step(10, [JobStarted(b, 1, 0, 1), JobStarted(c, 2, 0, 1)], [], free=0)
    recorder.step(14, [JobFinished(b, 1)], [], free=1)
    recorder.step(30, [JobFinished(c, 2)], [], free=2)
    recorder.close(30)
    return recorder


def _run_of(recorder: Recorder, policy: str = "fifo", *, devices: int = 2, never_fit=()) -> Run:
    summary = summarise(
        recorder,
        policy=policy,
        devices=devices,
        decisions=7,
        decide_cpu_s=0.25,
        never_fit=dict.fromkeys(never_fit, "too large"),
    )
    return Run(policy, summary, recorder, frozenset(never_fit))


@pytest.fixture
def three_jobs():
    """A function that records them anew, under other names if asked."""
    return _three_jobs


@pytest.fixture
def run_of():
    """A function that sums a recorder up."""
    return _run_of


@pytest.fixture
def recorder() -> Recorder:
    return _three_jobs()


@pytest.fixture
def comparison() -> Comparison:
    return Comparison(
        title="Three jobs",
        command="treadle compare three.csv --cluster 1x2",
        notes=["Trace: three jobs by hand."],
        cluster=Cluster.grid(1, 2),
        runs=[_run_of(_three_jobs()), _run_of(_three_jobs(), "sjf")],
    )


@pytest.fixture
def with_long_tail() -> Comparison:
    """Sixteen devices are busy for 100 s; one of them goes on until 10,000 s."""
    recorder = Recorder()
    lengths_s = {f"j{number}": 10_000 if number == 0 else 100 for number in range(16)}
    facts = [JobSubmitted(job(name, length_s=length)) for name, length in lengths_s.items()]
    places = [Device(f"n{number // 8}", number % 8) for number in range(16)]
    starts = [Start(n, f"j{n}", Allocation((places[n],))) for n in range(16)]
    recorder.step(0, facts, starts, free=0)
    recorder.step(100, [JobFinished(f"j{n}", n) for n in range(1, 16)], [], free=15)
    recorder.step(10_000, [JobFinished("j0", 0)], [], free=16)
    recorder.close(10_000)
    return Comparison("A long tail", "", [], Cluster.grid(2, 8), [_run_of(recorder, devices=16)])
