"""Cells in processes of their own: what is left when a league stops early."""

from functools import partial
from multiprocessing import active_children
from pathlib import Path

from treadle.core.cluster import Cluster
from treadle.league.policy_file import PolicyFile
from treadle.league.processes import Input, run_cells
from treadle.sim.settings import Settings
from treadle.testing.builders import job
from treadle.traces.workload import Workload

ENDLESS = """
from treadle.policies.simple.orders import srtf


def endless(placement, belief):
    policy = srtf(placement, belief)

    def decide(snapshot):
        while True:
            pass

    policy.decide = decide
    return policy
"""


def _as_is(given: Input) -> Input:
    return given


def test_a_league_that_is_left_early_stops_its_processes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ENDLESS)
    file = PolicyFile.parse(f"{tmp_path / 'mine.py'}:endless")
    workload = Workload.of("two", [job("a"), job("b")])
    cluster = Cluster.grid(1, 1)
    inputs = [
        Input(workload, cluster, Settings(policy="endless"), (file,)),
        Input(workload, cluster, Settings(policy="fifo")),
    ]
    running = run_cells([partial(_as_is, one) for one in inputs], workers=2, limit_s=60.0)
    place, outcome = next(running)
    assert place == 1
    assert outcome.figures is not None
    assert outcome.figures.mean_s == 150
    assert len(active_children()) >= 1
    running.close()
    assert not active_children()
