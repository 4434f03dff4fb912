"""The AFS replication: how a figure is judged, and a quick part of the real thing."""

import json

import pytest
from click.testing import CliRunner
from tests.shared import thorough, trace

from treadle.cli.main import cli
from treadle.policies.registry import names
from treadle.replications import afs
from treadle.replications.paper import hours
from treadle.replications.rows import Row
from treadle.sim.experiment import prepare
from treadle.traces.clusters import cluster
from treadle.traces.load import load


def test_a_figure_inside_its_tolerance_holds_and_outside_it_does_not() -> None:
    assert Row("x", 1.09, 1.0, 0.10).holds
    assert not Row("x", 1.11, 1.0, 0.10).holds
    assert Row("x", 9.0, 1.0).holds, "without a tolerance a figure is shown and not judged"
    assert Row("x", 1.009, 1.01, at_most=True).holds
    assert not Row("x", 1.02, 1.01, at_most=True).holds


@pytest.mark.parametrize(
    ("label", "published"), [("srtf", 1.56), pytest.param("backfill", 3.49, marks=thorough)]
)
def test_a_baseline_over_afs_on_a_real_virtual_cluster(label: str, published: float) -> None:
    path = trace("afs_vc_e13805.csv.gz")
    machines = cluster(afs.PAPER.cluster)
    workload = load(str(path))
    base_h, mean_h = (
        hours(prepare(workload, machines, afs.settings(name, {})).finish())
        for name in ("afs", label)
    )
    assert base_h == pytest.approx(15.32, rel=0.001)
    assert mean_h / base_h == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize("name", names())
def test_s7_a_policy_of_the_registry_is_run_under_its_own_name(name: str) -> None:
    assert afs.settings(name, {}).policy == name


def test_the_command_applies_the_settings_to_any_trace() -> None:
    path = trace("afs_vc_e13805.csv.gz")
    words = ["replicate", "afs", "--trace", str(path), "--policies", "srtf,srsf", "--json"]
    rows = json.loads(CliRunner().invoke(cli, words).output)
    assert [row["policy"] for row in rows] == ["srtf", "srsf"]
    assert all(row["finished"] == 938 for row in rows)
