"""What decisions cost is CPU time: time in which other programs ran does not count."""

import subprocess
import sys
from time import perf_counter

from treadle.control.loop.live_policy import PolicyInCharge
from treadle.core.cluster import Cluster
from treadle.core.ports import Policy
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.scaling import ScalingModel
from treadle.policies.base.placement import placement
from treadle.policies.registry import policy
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.testing.builders import job
from treadle.traces.workload import Workload


class WaitsForAnotherProgram(Wrapper):
    """A policy whose decisions take long by the clock and hardly any CPU time."""

    def __init__(self, inner: Policy) -> None:
        super().__init__(inner)
        self.took_s = 0.0

    def decide(self, snapshot: Snapshot) -> Schedule:
        begun_s = perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        self.took_s += perf_counter() - begun_s
        return self.inner.decide(snapshot)


def test_s6_decide_cpu_s_leaves_out_the_time_of_other_programs() -> None:
    slow = WaitsForAnotherProgram(policy("fifo", placement("consolidate"), ScalingModel()))
    jobs = Workload.of("one job", [job("a")])
    summary = prepare(jobs, Cluster.grid(1, 1), Settings(), made=slow).finish()
    assert slow.took_s > 0
    assert summary.decide_cpu_s < 0.7 * slow.took_s


def test_s6_the_daemon_adds_up_the_cpu_time_of_its_decisions() -> None:
    charge = PolicyInCharge()
    charge.decided(5.0, 0.25)
    charge.take_over("fifo", "consolidate")  # Another policy does not begin the sum again.
    charge.decided(5.0, 0.5)
    assert charge.cpu_s == 0.75
