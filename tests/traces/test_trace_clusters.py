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
    ("text", "message"),
    [
        (
            "nodes:\n  - count: 2\n    device: 8\n",
            (
                "c.yaml line 3: unknown key 'device'; did you mean devices? "
                "(known: name, count, devices, type, device_memory_gib, cores, memory_gib, rack)"
            ),
        ),
        (
            "nodes:\n  - {colour: red}\n",
            (
                "c.yaml line 2: unknown key 'colour' "
                "(known: name, count, devices, type, device_memory_gib, cores, memory_gib, rack)"
            ),
        ),
        ("node:\n  - devices: 2\n", "c.yaml line 1: unknown key 'node'; expected nodes"),
        ("nodes:\n  - {count: 2}\n", "c.yaml line 2: a node needs devices, such as devices: 8"),
        (
            "nodes:\n  - {devices: few}\n",
            "c.yaml line 2: devices is 'few'; expected a whole number",
        ),
        ("nodes:\n  - {devices: 0}\n", "c.yaml line 2: node n0 has 0 devices; expected 1 to 1024"),
        ("nodes:\n  - {devices: 1, count: 0}\n", "c.yaml line 2: count is 0; expected 1 or more"),
        (
            "nodes:\n  - {devices: 1, devices: 2}\n",
            "c.yaml line 2: devices is given twice; keep one",
        ),
        (
            "nodes:\n  - devices: 1\n    cores: -3\n",
            "c.yaml line 3: cores is -3; expected 0 or more, and 0 where unknown",
        ),
        (
            "nodes:\n  - {devices: 1, memory_gib: nan}\n",
            "c.yaml line 2: memory_gib is nan; expected 0",
        ),
        (
            "nodes:\n  - {devices: 1, memory_gib: inf}\n",
            "c.yaml line 2: memory_gib is inf; expected 0",
        ),
        (
            "nodes:\n  - {devices: 1, device_memory_gib: -8}\n",
            "c.yaml line 2: device_memory_gib is -8; expected 0",
        ),
        (
            "nodes:\n  - {devices: 1, device_memory_gib: 8G}\n",
            "c.yaml line 2: device_memory_gib is '8G'; expected a number",
        ),
        (
            "nodes:\n  - {devices: 1, rack: [a, b]}\n",
            "c.yaml line 2: rack has several values; expected a name",
        ),
        (
            f"nodes:\n  - {{devices: 1, cores: {'9' * 400}}}\n",
            f"c.yaml line 2: cores is {'9' * 40}; expected 0",
        ),
        ("nodes:\n  - {[a]: 1}\n", "c.yaml line 2: unknown key "),
        (
            "nodes:\n  - {devices: 1}\nfoo: 1\n",
            "c.yaml line 3: unknown key 'foo'; expected nodes",
        ),
        (
            "nodes:\n  - {devices: 1}\nnodes:\n  - {devices: 2}\n",
            "c.yaml line 3: nodes is given twice; keep one",
        ),
        ("nodes:\n  - 8\n", "c.yaml line 2: expected keys such as devices: 8"),
        ("nodes: 8\n", "c.yaml line 1: nodes is no list; expected entries such as - {count: 8,"),
        ("nodes: []\n", "c.yaml lists no nodes; expected at least one"),
        ("nodes: [\n", "c.yaml line 2 is not YAML: "),
        ("hello\n", "c.yaml is no cluster; expected YAML that begins with nodes:"),
        ("", "c.yaml is empty; expected a list of nodes"),
        (
            "nodes:\n  - {name: a, devices: 1}\n  - {name: a, devices: 1}\n",
            "c.yaml: node a is listed twice; every node needs its own name",
        ),
        (
            "nodes:\n  - {devices: 1, count: 200000}\n",
            "c.yaml lists more than 100,000 nodes; cut it",
        ),
    ],
)
def test_a_mistake_in_yaml_is_named_with_its_line(written, text, message):
    assert complaint(written(text, "c.yaml")).startswith(message)


def test_a_word_that_is_no_cluster_says_what_is():
    assert complaint("8by8") == (
        "cluster '8by8' is no file, no preset and no count of nodes and devices; expected "
        "NODESxDEVICES such as 8x8 or 231x8+321x2, one of philly, philly-fixed, philly-mini, "
        "or a file"
    )


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_cluster_says_so(text):
    assert complaint(text) == (
        "the cluster is empty; expected NODESxDEVICES such as 8x8 or 231x8+321x2, "
        "one of philly, philly-fixed, philly-mini, or a file"
    )


def test_a_word_near_a_preset_is_answered_with_it():
    assert complaint("phily") == (
        "cluster 'phily' is no file, no preset and no count of nodes and devices; "
        "did you mean philly?"
    )


def test_a_long_word_that_is_no_cluster_is_cut():
    assert len(complaint("x" * 5000)) < 400


def test_messages_name_the_cluster_file_as_it_was_typed(written, tmp_path):
    name = written("nodes:\n  - {count: 2}\n", "c.yaml")
    for typed in (f"./{name}", f"{tmp_path}/{name}"):
        assert complaint(typed) == f"{typed} line 2: a node needs devices, such as devices: 8"
    table = written("machineId, number of GPUs, single GPU mem\nm0,x,1\n")
    assert complaint(f"./{table}").startswith("./trace.csv line 2: number of GPUs is 'x'")


@pytest.mark.parametrize("text", ["0x8", "8x0", "999999999x8", "2x8+0x4", "x" * 5000])
def test_impossible_counts_are_refused(text):
    assert "expected" in complaint(text)


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
