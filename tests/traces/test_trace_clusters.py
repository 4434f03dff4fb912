"""A cluster from a short text, a preset or a file."""

import pytest

from treadle.core.cluster import Cluster, Node
from treadle.core.errors import InvalidInputError
from treadle.traces.clusters import cluster


def complaint(text: str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        cluster(text)
    return str(caught.value)


def test_nodes_times_devices_is_the_grid():
    assert cluster("8x8") == Cluster.grid(8, 8)


def test_groups_keep_their_order_because_first_fit_looks_at_them_in_order():
    mixed = cluster("2x8+3x2")
    assert [node.device_count for node in mixed.nodes] == [8, 8, 2, 2, 2]
    assert [node.name for node in mixed.nodes] == ["n0", "n1", "n2", "n3", "n4"]


def test_a_group_may_be_of_cpu_slots():
    mixed = cluster("2x8+1x16cpu")
    assert [(node.device_count, node.device_type) for node in mixed.nodes] == [
        (8, "gpu"),
        (8, "gpu"),
        (16, "cpu"),
    ]
    assert "'2x8+1x16tpu' is no file" in complaint("2x8+1x16tpu")


@pytest.mark.parametrize(
    ("name", "nodes", "devices"),
    [("philly", 552, 2490), ("philly-fixed", 535, 3196), ("philly-mini", 33, 196)],
)
def test_presets_have_the_published_machines_in_racks_of_eighteen(name, nodes, devices):
    preset = cluster(name)
    assert (len(preset.nodes), preset.device_count) == (nodes, devices)
    assert {node.rack for node in preset.nodes[:18]} == {"r0"}
    assert preset.nodes[18].rack == "r1"


def test_yaml_has_every_field_of_a_node(written):
    text = """
nodes:
  - count: 2
    devices: 8
    type: v100
    cores: 96
    memory_gib: 512.5
    rack: r0
    device_memory_gib: 31.7
  - {name: big, devices: 16}
  - {name: pair, count: 2, devices: 4}
  - devices: 1
"""
    assert cluster(written(text, "c.yaml")).nodes == (
        Node("n0", 8, "v100", 96, 512.5, "r0", 31.7),
        Node("n1", 8, "v100", 96, 512.5, "r0", 31.7),
        Node("big", 16),
        Node("pair-0", 4),
        Node("pair-1", 4),
        Node("n5", 1),
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nodes:\n  - count: 2\n    device: 8\n", "device"),
        ("node:\n  - devices: 2\n", "node"),
        ("nodes:\n  - {count: 2}\n", "devices"),
        ("nodes:\n  - {devices: 2}\n  - {devices: few}\n", "nodes[1].devices"),
        ("nodes:\n  - {devices: 0}\n", "nodes[0]"),
        ("nodes:\n  - {devices: 1, count: 0}\n", "nodes[0].count"),
        ("nodes:\n  - devices: 1\n    cores: -3\n", "nodes[0].cores"),
        ("nodes:\n  - {devices: 1, memory_gib: nan}\n", "nodes[0].memory_gib"),
        ("nodes:\n  - {devices: 1, memory_gib: inf}\n", "nodes[0].memory_gib"),
        ("nodes:\n  - {devices: 1, rack: [a, b]}\n", "nodes[0].rack"),
        ("nodes:\n  - {[a]: 1}\n", "nodes"),
        ("nodes:\n  - 8\n", "nodes[0]"),
        ("nodes: 8\n", "nodes"),
        ("nodes: [\n", "line 2"),
        ("[" * 400, "nodes"),
        ("hello\n", "nodes"),
        ("nodes: []\n", "no nodes"),
        ("", "empty"),
        ("nodes:\n  - {name: a, devices: 1}\n  - {name: a, devices: 1}\n", "node a"),
        ("nodes:\n  - {devices: 1, count: 200000}\n", "100,000"),
    ],
)
def test_a_mistake_in_yaml_is_one_sentence_that_names_it(written, text, named):
    message = complaint(written(text, "c.yaml"))
    assert message.startswith("c.yaml")
    assert named in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("text", ["", "8by8", "0x8", "8x0", "999999999x8", "2x8+0x4", "x" * 5000])
def test_what_is_no_cluster_is_refused_shortly(text):
    assert "expected" in complaint(text)
    assert len(complaint(text)) < 400
    assert "did you mean philly?" in complaint("phily")


def test_phillys_machine_list_and_openbs_node_list_are_clusters(written):
    machines = "machineId, number of GPUs, single GPU mem\nm0,2, 12GB\nm9,8, 24GB\n"
    assert cluster(written(machines)).nodes == (Node("m0", 2), Node("m9", 8))
    nodes = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,64000,262144,0,\n"
    assert cluster(written(nodes)).nodes == (Node("a", 2, "P100", 64, 256.0),)
    assert complaint(written(machines + "m0,x,12GB\n")) == (
        "trace.csv line 4: number of GPUs is 'x'; expected a whole number from 1"
    )


def test_the_real_machine_list_is_the_preset(real):
    listed = cluster(real("philly_machines.csv.gz"))
    assert listed.device_count == cluster("philly").device_count
    assert cluster(real("openb_node_list_gpu_node.csv.gz")).device_count == 6212
