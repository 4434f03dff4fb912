"""Devices, nodes and clusters; and the tree of errors."""

import pytest

from treadle.core.cluster import Cluster, Node
from treadle.core.errors import InvalidInputError


@pytest.mark.parametrize(("name", "count"), [("", 4), ("n0", 0), ("n0", -1), ("n0", 1025)])
def test_a_node_has_a_name_and_between_one_and_a_thousand_devices(name: str, count: int) -> None:
    with pytest.raises(InvalidInputError):
        Node(name, count)


def test_a_node_listed_twice_is_named() -> None:
    with pytest.raises(InvalidInputError, match="node b "):
        Cluster((Node("a", 1), Node("b", 1), Node("b", 2)))
