"""What Ray lists as nodes, as Treadle sees them: names, racks, and what is reserved."""

from typing import Any

import pytest

from treadle.engines.agent.device_choice import not_offered
from treadle.engines.clusters.ray.cluster import RayNode, bundle, first_line, node_of
from treadle.engines.clusters.ray.fleet import natural


def row(**details: Any) -> dict[str, Any]:
    return {
        "NodeID": "0123456789abcdef",
        "NodeManagerAddress": "10.0.0.7",
        "NodeManagerHostname": "gpu-7.example",
        "NodeName": "10.0.0.7",
        "Resources": {"CPU": 8.0, "GPU": 4.0, "memory": 1.0},
        "Labels": {},
        **details,
    }


def node(**details: Any) -> RayNode:
    found = node_of(row(**details))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("details", "name"),
    [
        ({}, "gpu-7.example"),
        ({"NodeName": "rack1 gpu"}, "rack1-gpu"),
        ({"NodeName": "a", "Labels": {"treadle.io/name": "b"}}, "b"),
        ({"NodeManagerHostname": ""}, "0123456789ab"),
        ({"NodeName": "x" * 90}, "x" * 63),
    ],
)
def test_a_node_has_a_name_that_outlives_its_ray(details: dict[str, Any], name: str) -> None:
    assert node(**details).name == name


@pytest.mark.parametrize("name", [".", ".."])
@pytest.mark.parametrize("where", ["NodeName", "label"])
def test_a_name_that_leads_out_of_the_folder_of_nodes_is_not_taken(name: str, where: str) -> None:
    details = {"NodeName": name} if where == "NodeName" else {"Labels": {"treadle.io/name": name}}
    found = node(**details)
    assert found.name == "gpu-7.example"
    assert found.problem == f"it is called {name}, which leads out of the folder of nodes"


def test_a_label_says_the_rack() -> None:
    assert node().rack == ""
    assert node(Labels={"rack": "r1"}).rack == "r1"
    assert node(Labels={"rack": "r1", "treadle.io/rack": "r2"}).rack == "r2"


def test_a_label_says_what_the_devices_are_called() -> None:
    assert node().device_type == ""
    assert node(Labels={"treadle.io/device-type": " tpu-v5 "}).device_type == "tpu-v5"


def test_a_head_that_is_to_run_nothing_is_no_node() -> None:
    assert node_of(row(Resources={"memory": 1.0})) is None


@pytest.mark.parametrize(
    ("resources", "devices", "reserved"),
    [
        ({"CPU": 8.0, "GPU": 4.0}, None, {"GPU": 4.0}),
        ({"CPU": 8.0, "GPU": 4.0}, 2, {"CPU": 2.0}),
        ({"CPU": 8.0}, None, {"CPU": 8.0}),
        ({"CPU": 8.0}, 16, {"CPU": 8.0}),
    ],
)
def test_gpus_are_reserved_or_the_slots_of_a_node_without(
    resources: dict[str, float], devices: int | None, reserved: dict[str, float]
) -> None:
    assert bundle(node(Resources=resources), devices) == reserved


def test_a_label_says_how_many_slots_a_node_offers() -> None:
    assert bundle(node(Labels={"treadle.io/slots": "2"}), None) == {"CPU": 2.0}
    assert node(Labels={"treadle.io/slots": "2"}).problem == ""
    wrong = node(Labels={"treadle.io/slots": "many"})
    assert bundle(wrong, None) == {"GPU": 4.0}
    assert wrong.problem == ("its label treadle.io/slots is 'many' and not a number from 0 to 9999")
    assert node_of(row(Labels={"treadle.io/slots": "0"})) is None


@pytest.mark.parametrize(("label", "reserved"), [("2", 2.0), ("4", 4.0), ("16", 8.0)])
def test_the_label_of_a_node_wins_over_the_option_for_all(label: str, reserved: float) -> None:
    assert bundle(node(Labels={"treadle.io/slots": label}), 3) == {"CPU": reserved}


@pytest.mark.parametrize(
    ("count", "visible", "left_out"),
    [
        (4, None, set()),
        (2, None, {2, 3}),
        (2, "2,3", {0, 1}),
        (1, "GPU-d, GPU-a", {0, 1, 2}),
        (4, "1,9,GPU-x", {0, 2, 3}),
        (4, "", {0, 1, 2, 3}),
    ],
)
def test_gpus_that_ray_was_not_given_are_left_out(
    count: int, visible: str | None, left_out: set[int]
) -> None:
    uuids = ("GPU-a", "GPU-b", "GPU-c", "GPU-d")
    assert not_offered(uuids, count, visible) == left_out


def test_nodes_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["n10", "n2", "a", "n", "n2b"], key=natural) == ["a", "n", "n2", "n2b", "n10"]


def test_what_ray_says_is_one_line_without_colours() -> None:
    assert first_line(RuntimeError("\x1b[36mray::A\x1b[39m died\nTraceback ...")) == "ray::A died"
    assert first_line(RuntimeError()) == "RuntimeError"
