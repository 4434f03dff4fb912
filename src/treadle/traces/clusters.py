"""A cluster from a short text, a preset's name or a file.

8x8                     eight nodes of eight devices
231x8+321x2             groups, in the order in which first-fit looks at them
8x8+4x16cpu             eight nodes of eight GPUs, and four of sixteen CPU slots
philly                  a preset
cluster.yaml            nodes with names, types and racks: see `yaml_cluster`
machines.csv[.gz]       Philly's machine list, or openb's node list
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from treadle.core.cluster import Cluster, Node
from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.traces.source import blocks, lines
from treadle.traces.table import Table

NODES_MAX = 100_000

# Jeon et al., ATC'19. The released machine list is `philly`; it contradicts the job log, and
# `philly-fixed` is the list rebuilt from the log of utilisation; `philly-mini` is 1/16 of that.
PRESETS = {"philly": "231x8+321x2", "philly-fixed": "264x8+271x4", "philly-mini": "16x8+17x4"}
_NODES_PER_RACK = 18  # Philly's servers with one InfiniBand domain: 16 to 20
_CPU = "cpu"
_GROUPS = re.compile(r"\d+x\d+(cpu)?(\+\d+x\d+(cpu)?)*")
_GROUPS_LENGTH_MAX = 1000
_SHOWN = 100  # characters of a text that is no cluster

MACHINE_LIST = ("machineId", "number of GPUs", "single GPU mem")
NODE_LIST = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


def cluster(text: str) -> Cluster:
    """The cluster that this text, preset name or file describes."""
    if text in PRESETS:
        return Cluster(tuple(_groups(PRESETS[text], nodes_per_rack=_NODES_PER_RACK)))
    if _GROUPS.fullmatch(text) and len(text) <= _GROUPS_LENGTH_MAX:
        return Cluster(tuple(_groups(text)))
    expected = (
        f"expected NODESxDEVICES such as 8x8 or 231x8+321x2, one of {', '.join(PRESETS)}, or a file"
    )
    if not text.strip():
        raise InvalidInputError(f"the cluster is empty; {expected}")
    if not _exists(Path(text)):
        raise InvalidInputError(
            f"cluster {_shortened(text)!r} is no file, no preset and no count of nodes and devices"
            f"{did_you_mean(text, PRESETS) or '; ' + expected}"
        )
    return _from_file(text)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # A name that no file system takes.
        return False


def _groups(text: str, *, nodes_per_rack: int = 0) -> Iterator[Node]:
    """Nodes n0, n1, ... of groups such as 2x8+4x2; 0 nodes per rack means one rack."""
    number = 0
    for group in text.split("+"):
        count, _, devices = group.partition("x")
        if not 0 < number + int(count) <= NODES_MAX or not int(count):
            raise InvalidInputError(
                f"cluster {text!r} asks for {group.split('x')[0]} nodes in a group; "
                f"expected at least 1, and at most {NODES_MAX:,} in all"
            )
        for _ in range(int(count)):
            rack = f"r{number // nodes_per_rack}" if nodes_per_rack else ""
            kind = _CPU if devices.endswith(_CPU) else "gpu"
            yield Node(f"n{number}", int(devices.removesuffix(_CPU)), device_type=kind, rack=rack)
            number += 1


def _from_file(path: str) -> Cluster:
    text = lines(path, blocks(path))
    first = next(text, None)
    if first is None:
        raise InvalidInputError(f"{path} is empty; expected a list of nodes")
    header = tuple(column.strip() for column in first.split(","))
    if header == MACHINE_LIST:
        return _checked(path, _machines(Table(path, header, text)))
    if set(NODE_LIST) <= set(header):
        return _checked(path, _openb_nodes(Table(path, header, text)))
    from treadle.traces.cluster_file import yaml_nodes  # noqa: PLC0415 (yaml takes 20 ms to import)

    return _checked(path, yaml_nodes(path, first + "".join(text)))


def _checked(name: str, nodes: Iterable[Node]) -> Cluster:
    found: list[Node] = []
    for node in nodes:
        found.append(node)
        if len(found) > NODES_MAX:
            raise InvalidInputError(f"{name} lists more than {NODES_MAX:,} nodes; cut it")
    if not found:
        raise InvalidInputError(f"{name} lists no nodes; expected at least one")
    try:
        return Cluster(tuple(found))
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from None


def _machines(table: Table) -> Iterator[Node]:
    """Philly's list: name and number of GPUs; racks are not recorded."""
    name, devices = table.text("machineId", required=True), table.count("number of GPUs")
    for row in table.rows():
        yield Node(name(row), devices(row))


def _openb_nodes(table: Table) -> Iterator[Node]:
    """Alibaba's openb list: millicores, MiB, GPUs and their model; skips nodes without GPUs."""
    name, devices = table.text("sn", required=True), table.count("gpu", least=0)
    kind = table.text("model")
    millicores, mebibytes = table.moment("cpu_milli"), table.moment("memory_mib")
    for row in table.rows():
        if devices(row):
            yield Node(
                name(row),
                devices(row),
                device_type=kind(row) or "gpu",
                cores=int(millicores(row) // 1000),
                memory_gib=mebibytes(row) / 1024,
            )
