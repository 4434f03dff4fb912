"""Devices, nodes and clusters; and the tree of errors."""

import pytest

from treadle.core.cluster import Cluster, Device, Node
from treadle.core.errors import EngineError, InvalidInputError, PolicyError, TreadleError


def test_a_device_is_written_as_node_and_number() -> None:
    assert str(Device("n3", 7)) == "n3:7"


@pytest.mark.parametrize(("name", "count"), [("", 4), ("n0", 0), ("n0", -1), ("n0", 1025)])
def test_a_node_has_a_name_and_between_one_and_a_thousand_devices(name: str, count: int) -> None:
    with pytest.raises(InvalidInputError):
        Node(name, count)


def test_a_node_listed_twice_is_named() -> None:
    with pytest.raises(InvalidInputError, match="node b "):
        Cluster((Node("a", 1), Node("b", 1), Node("b", 2)))


def test_a_grid_is_equal_nodes_in_order() -> None:
    cluster = Cluster.grid(2, 4)
    assert [node.name for node in cluster.nodes] == ["n0", "n1"]
    assert cluster.device_count == 8
    assert cluster.largest_node == 4


def test_a_cluster_without_nodes_has_nothing() -> None:
    assert Cluster(()).device_count == 0
    assert Cluster(()).largest_node == 0


def test_nodes_join_at_the_end_and_leave_by_name() -> None:
    cluster = Cluster.grid(2, 4).with_node(Node("x", 8, rack="r1"))
    assert cluster.rack_of() == {"n0": "", "n1": "", "x": "r1"}
    assert cluster.largest_node == 8
    assert [node.name for node in cluster.without(["n0", "nobody"]).nodes] == ["n1", "x"]


def test_an_engine_error_says_whether_to_try_again() -> None:
    error = EngineError("node n0 does not answer", retryable=True)
    assert str(error) == "node n0 does not answer"
    assert error.retryable
    assert isinstance(error, TreadleError)
    assert not isinstance(error, PolicyError)
