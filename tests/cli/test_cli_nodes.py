"""`treadle nodes`: which nodes are drained, and orders about them."""

from tests.cli.live_session import ValueClient, printed

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


def test_nodes_says_in_which_rack_they_are(capsys) -> None:
    node = NodeView(name="box", device_type="gpu", cores=8, memory_gib=64, devices=(), rack="r1")
    client = ValueClient(machines=(node,))
    assert printed(capsys, client, "nodes").startswith("box: 0 x gpu, 8 cores, 64 GiB, rack r1\n")
