"""`treadle nodes`: which nodes are drained, and orders about them."""

from dataclasses import replace

import pytest
from tests.cli.live_session import NOW, STATUS, ValueClient, printed

from treadle.cli.live.status import status_lines
from treadle.core.machine import NodeView


def test_a_node_is_drained_and_used_again(capsys) -> None:
    client = ValueClient()
    drained = printed(capsys, client, "nodes", "drain", "box")
    assert drained == "node box is drained: it takes no new jobs; 1 job still on it\n"
    assert printed(capsys, client, "nodes", "undrain", "box") == "node box is in use\n"
    assert client.asked == [("drain", "box"), ("undrain", "box")]


def test_nodes_says_which_are_drained(capsys) -> None:
    node = NodeView(name="box", device_type="gpu", cores=8, memory_gib=64, devices=(), drained=True)
    client = ValueClient(machines=(node,))
    assert "\nit is drained: it takes no new jobs\n" in printed(capsys, client, "nodes")


def test_nodes_says_what_its_administrator_should_mend(capsys) -> None:
    node = NodeView(name="box", device_type="gpu", cores=8, memory_gib=64, devices=())
    client = ValueClient(machines=(replace(node, warning="2 nodes are called box"),))
    assert "2 nodes are called box" in printed(capsys, client, "nodes").splitlines()


@pytest.mark.parametrize(
    ("health", "quiet_s", "because", "line"),
    [
        ("answers", None, "", "its agent answers"),
        ("joining", None, "", "its agent has not answered yet"),
        ("silent", 40.0, "", "its agent is silent: its last answer was 40s ago"),
        ("lost", 180.0, "Ray says it died", "it was lost 3m ago: Ray says it died"),
        (
            "unconfirmed",
            12.0,
            "Ray does not answer box",
            "nothing is started there: Ray does not answer box; it was confirmed last 12s ago",
        ),
    ],
)
def test_nodes_says_how_their_agents_do(capsys, health, quiet_s, because, line) -> None:
    node = NodeView(
        name="box",
        device_type="gpu",
        cores=8,
        memory_gib=64,
        devices=(),
        health=health,
        since_at=None if quiet_s is None else NOW - quiet_s,
        because=because,
    )
    client = ValueClient(machines=(node,))
    for verb in ("nodes", "top"):
        assert line in printed(capsys, client, verb).splitlines()


def test_nodes_does_not_say_when_a_node_was_lost_that_was_only_missed_then(capsys) -> None:
    node = NodeView(name="box", device_type="gpu", cores=8, memory_gib=64, devices=())
    lost = replace(node, health="lost", since_at=NOW - 2.0, because="it is gone", noticed=True)
    shown = printed(capsys, ValueClient(machines=(lost,)), "nodes").splitlines()
    assert "it is lost, which was noticed 2s ago: it is gone" in shown


def test_status_names_the_cluster_its_nodes_and_devices_that_are_drained(capsys) -> None:
    found = replace(STATUS, engine="ray", cluster="10.0.0.1:6379", free=0, drained_devices=6)
    client = ValueClient(found=replace(found, nodes=3, drained_nodes=2, lost_nodes=1))
    lines = printed(capsys, client, "status").splitlines()
    assert "  devices  8, 0 free, 6 in drained nodes" in lines
    assert "  nodes    3; 2 drained, 1 lost" in lines
    assert "  engine   ray at 10.0.0.1:6379" in lines
    assert "0 of 8 devices free, 6 in drained nodes" in printed(capsys, client, "top")


def test_a_daemon_that_begins_does_not_count_jobs_of_which_it_has_not_heard() -> None:
    """Some of them may have ended while no daemon ran."""
    begins = dict(status_lines(replace(STATUS, running=4, starting=1), begins=True))
    assert begins["jobs"] == "5 taken over or starting, 12 waiting, 1 held"
    assert "free" not in begins["devices"]
    idle = replace(STATUS, running=0, starting=0, stopping=0)
    assert dict(status_lines(idle, begins=True)) == dict(status_lines(idle))
