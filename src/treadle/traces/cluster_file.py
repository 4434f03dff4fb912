"""A cluster written in YAML.

    nodes:                       # in the order in which first-fit looks at them
      - count: 8                 # number of equal nodes; default 1
        devices: 8               # devices on each; the only required key
        type: v100               # default gpu
        cores: 96                # 0 or omitted: unknown
        memory_gib: 1600
        rack: r0
      - name: big                # one node big; with a count, big-0, big-1, ...
        devices: 16

Nodes without a name are called n0, n1, ... by their position in the whole list.
"""

from collections.abc import Iterator
from math import inf

import yaml

from treadle.core.cluster import Node
from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean

_KEYS = {
    "name": str,
    "count": int,
    "devices": int,
    "type": str,
    "cores": int,
    "memory_gib": float,
    "rack": str,
}
_KINDS = {str: "a name", int: "a whole number", float: "a number"}
_AMOUNTS = ("cores", "memory_gib")
_TEXT_MAX = 16 << 20

Entry = dict[str, str | int | float]


def yaml_nodes(name: str, text: str) -> Iterator[Node]:
    """The nodes of a YAML file; an error names its line."""
    if len(text) > _TEXT_MAX:
        raise InvalidInputError(f"{name} is larger than {_TEXT_MAX:,} characters; use counts")
    number = 0
    for item in _items(name, text):
        line = item.start_mark.line + 1
        entry = _entry(name, item)
        if "devices" not in entry:
            raise InvalidInputError(f"{name} line {line}: a node needs devices, such as devices: 8")
        count = int(entry.get("count", 1))
        if count < 1:
            raise InvalidInputError(f"{name} line {line}: count is {count}; expected 1 or more")
        for place in range(count):
            yield _node(f"{name} line {line}", entry, place=place, number=number)
            number += 1


def _items(name: str, text: str) -> list[yaml.Node]:
    """The entries under `nodes:`, with their marks."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name} line {mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or "not readable"
        raise InvalidInputError(f"{where} is not YAML: {problem}") from None
    if not isinstance(root, yaml.MappingNode):
        raise InvalidInputError(f"{name} is no cluster; expected YAML that begins with nodes:")
    items: list[yaml.Node] | None = None
    for key, value in root.value:
        where = f"{name} line {key.start_mark.line + 1}"
        if key.value != "nodes":
            raise InvalidInputError(f"{where}: unknown key {key.value!r}; expected nodes")
        if items is not None:
            raise InvalidInputError(f"{where}: nodes is given twice; keep one")
        if not isinstance(value, yaml.SequenceNode):
            raise InvalidInputError(
                f"{name} line {value.start_mark.line + 1}: nodes is no list; expected entries "
                "such as - {count: 8, devices: 8}"
            )
        items = list(value.value)
    if items is None:
        raise InvalidInputError(f"{name} has no nodes; expected a list under nodes:")
    return items


def _entry(name: str, item: yaml.Node) -> Entry:
    """One entry's keys and values, each with the type its key requires."""
    if not isinstance(item, yaml.MappingNode):
        raise InvalidInputError(
            f"{name} line {item.start_mark.line + 1}: expected keys such as devices: 8"
        )
    entry: Entry = {}
    for key, value in item.value:
        where = f"{name} line {key.start_mark.line + 1}"
        if key.value not in _KEYS:
            raise InvalidInputError(
                f"{where}: unknown key {key.value!r}{did_you_mean(str(key.value), _KEYS)} "
                f"(known: {', '.join(_KEYS)})"
            )
        if key.value in entry:
            raise InvalidInputError(f"{where}: {key.value} is given twice; keep one")
        kind = _KEYS[key.value]
        try:
            entry[key.value] = kind(value.value)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"{where}: {key.value} is {value.value!r}; expected {_KINDS[kind]}"
            ) from None
        if key.value in _AMOUNTS and not 0 <= float(entry[key.value]) < inf:
            raise InvalidInputError(
                f"{where}: {key.value} is {value.value}; expected 0 or more, and 0 where unknown"
            )
    return entry


def _node(where: str, entry: Entry, *, place: int, number: int) -> Node:
    name = str(entry.get("name", f"n{number}"))
    if "name" in entry and "count" in entry:
        name = f"{name}-{place}"
    try:
        return Node(
            name,
            int(entry["devices"]),
            device_type=str(entry.get("type", "gpu")),
            cores=int(entry.get("cores", 0)),
            memory_gib=float(entry.get("memory_gib", 0.0)),
            rack=str(entry.get("rack", "")),
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None
