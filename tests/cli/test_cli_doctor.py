"""`treadle doctor`: attempts of a cluster are in folders of its nodes."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.live_session import ValueClient

from treadle.cli.live.doctor_checks import Finding, Patient, alive, examine
from treadle.core.machine import NodeView
from treadle.engines.agent.found import Found
from treadle.engines.node.attempt_folders import AttemptFolders


def attempts_of(folder: Path) -> str:
    patient = Patient(folder, f"sqlite:///{folder / 'treadle.db'}", folder / "s")
    return next(finding.text for finding in examine(patient) if finding.check == "attempts")


def test_attempts_on_nodes_of_a_cluster_are_counted(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert attempts_of(tmp_path) == "none yet"
    for node, job in (("a", "1"), ("a", "2"), ("b", "2")):
        AttemptFolders(tmp_path / "nodes" / node).make(job, 1, action=1)
    assert attempts_of(tmp_path) == "3 folders, all readable"
    AttemptFolders(tmp_path).make("3", 1, action=1)
    assert attempts_of(tmp_path) == "4 folders, all readable"


def test_what_is_wrong_with_nodes_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = NodeView(name="b", device_type="cpu", cores=1, memory_gib=1, devices=())
    client = ValueClient(machines=(node, replace(node, warning="2 nodes are called b")))
    monkeypatch.setattr("treadle.cli.live.doctor_checks.Client", lambda _: nullcontext(client))
    patient = Patient(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}", tmp_path / "s")
    found = [each for each in examine(patient) if each.check == "nodes"]
    assert found == [Finding("nodes", ok=False, text="2 nodes are called b")]


def test_agents_that_do_not_answer_and_lost_nodes_are_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = NodeView(
        name="b", device_type="cpu", cores=1, memory_gib=1, devices=(), health="answers"
    )
    client = ValueClient(machines=(node, replace(node, name="c")))
    monkeypatch.setattr("treadle.cli.live.doctor_checks.Client", lambda _: nullcontext(client))
    monkeypatch.setattr("treadle.cli.live.doctor_checks.now_at", lambda: 1_000.0)
    patient = Patient(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}", tmp_path / "s")

    def found() -> list[Finding]:
        return [each for each in examine(patient) if each.check == "nodes"]

    assert found() == [Finding("nodes", ok=True, text="2 nodes, the agent of each answers")]
    client.machines = (
        node,
        replace(node, name="c", health="silent", since_at=960.0),
        replace(node, name="d", health="joining"),
        replace(node, name="e", health="lost", since_at=940.0, because="its raylet died"),
    )
    assert found() == [
        Finding("nodes", ok=False, text="node c: its agent is silent: its last answer was 40s ago"),
        Finding("nodes", ok=False, text="node d: its agent has not answered yet"),
        Finding("nodes", ok=False, text="node e: it was lost 1m ago: its raylet died"),
    ]


def test_attempts_that_run_on_nodes_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folder and store are not bonded anew while one of them runs."""

    def runs(places: AttemptFolders, mark: object) -> Found:
        return Found(mark, places.root, alive=True, supervisor=None, status=None)  # type: ignore[arg-type]

    monkeypatch.setattr("treadle.cli.live.doctor_checks.look", runs)
    AttemptFolders(tmp_path / "nodes" / "a").make("1", 1, action=1)
    assert [found.job for found in alive(tmp_path)] == ["1"]
