"""The AITurbo replication: every figure is there, and a small part of the real thing."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from tests.shared import thorough

from treadle.cli.main import cli
from treadle.replications import aiturbo
from treadle.traces.clusters import cluster


def test_optimus_decides_in_rounds_and_others_at_every_event() -> None:
    in_rounds = replace(aiturbo.SETTINGS, policy="optimus", time="rounds:300")
    assert aiturbo.settings("optimus", {}) == in_rounds
    for name in ("tiresias?promote=8", "aiturbo?fidelity=raw"):
        assert aiturbo.settings(name, {}) == replace(aiturbo.SETTINGS, policy=name)


def test_with_the_same_jobs_the_share_affects_only_policies_that_predict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aiturbo, "JOBS", 40)
    runs = aiturbo.Runs(cluster(aiturbo.PAPER.cluster), (1,))
    found: dict[str, set[float]] = {"tiresias": set(), "aiturbo": set()}
    for policy, averages in found.items():
        for share in (0.0, 1.0):
            case = aiturbo.Case(policy, share=share, durations=aiturbo.ALIKE)
            averages.add(runs.mean_h(case))
    assert len(found["tiresias"]) == 1
    assert len(found["aiturbo"]) == 2


def test_the_share_does_not_affect_optimus_with_known_lengths() -> None:
    cases = [
        aiturbo.Case("optimus", share=share, durations=aiturbo.ALIKE, lengths="known")
        for share in (0.0, 1.0)
    ]
    runs = aiturbo.Runs(cluster(aiturbo.PAPER.cluster), (1,))
    assert runs.mean_h(cases[0]) == runs.mean_h(cases[1])


@thorough
def test_aiturbo_beats_its_baselines_either_way_and_cpu_slots_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A part of the replication; how much faster it is, only the whole can say."""
    monkeypatch.setattr(aiturbo, "JOBS", 100)
    runs = aiturbo.Runs(cluster(aiturbo.PAPER.cluster), (1,))
    for baseline in aiturbo.BASELINES:
        assert min(runs.times(aiturbo.Case(baseline, time)) for time in aiturbo.WAYS) > 1.0
    assert runs.mean_h(aiturbo.Case(slots=True)) < runs.mean_h(aiturbo.Case())


def test_the_command_applies_the_settings_to_any_trace() -> None:
    drawn = "generate:aiturbo?jobs=20&load=2&unpredictable=0.15&cpu=0.117"
    words = ["replicate", "aiturbo", "--trace", drawn, "--cluster", "2x8+3x16cpu", "--json"]
    rows = json.loads(CliRunner().invoke(cli, words).output)
    assert [row["policy"] for row in rows] == ["aiturbo", "optimus", "tiresias"]
    assert all(row["finished"] == 20 for row in rows)
