"""A cluster written in YAML.

    nodes:                       # in the order in which first-fit looks at them
      - count: 8                 # number of equal nodes; default 1
        devices: 8               # devices on each; the only required key
        type: v100               # default gpu; cpu for CPU slots
        device_memory_gib: 32    # of each device; 0 or omitted: unknown, as below
        cores: 96                # of each node
        memory_gib: 1600         # of each node
        rack: r0
      - name: big                # one node big; with a count, big-0, big-1, ...
        devices: 16

Nodes without a name are called n0, n1, ... by their position in the whole list.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from treadle.core.cluster import Node
from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.traces.table import AMOUNT_MAX


class _Key(NamedTuple):
    """What stands behind a key of an entry."""

    field: str  # of a Node
    kind: type[str] | type[int] | type[float]
    amount: bool = False  # 0 or more, and 0 where it is unknown


_KEYS = {
    "name": _Key("name", str),
    "count": _Key("", int),
    "devices": _Key("device_count", int),
    "type": _Key("device_type", str),
    "device_memory_gib": _Key("device_memory_gib", float, amount=True),
    "cores": _Key("cores", int, amount=True),
    "memory_gib": _Key("memory_gib", float, amount=True),
    "rack": _Key("rack", str),
}
_KINDS = {str: "a name", int: "a whole number", float: "a number"}
_TEXT_MAX = 16 << 20
_SHOWN = 40  # characters of a bad value that an error quotes

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
        word = key.value if isinstance(key, yaml.ScalarNode) else "[...]"
        if word not in _KEYS:
            raise InvalidInputError(
                f"{where}: unknown key {word!r}{did_you_mean(word, _KEYS)} "
                f"(known: {', '.join(_KEYS)})"
            )
        if word in entry:
            raise InvalidInputError(f"{where}: {word} is given twice; keep one")
        entry[word] = _value(where, word, value)
    return entry


def _value(where: str, word: str, node: yaml.Node) -> str | int | float:
    key = _KEYS[word]
    if not isinstance(node, yaml.ScalarNode):
        raise InvalidInputError(f"{where}: {word} has several values; expected {_KINDS[key.kind]}")
    try:
        value = key.kind(node.value)
    except ValueError:
        raise InvalidInputError(
            f"{where}: {word} is {node.value!r}; expected {_KINDS[key.kind]}"
        ) from None
    if key.amount and not 0 <= value < AMOUNT_MAX:  # type: ignore[operator]  # no amount is text
        raise InvalidInputError(
            f"{where}: {word} is {node.value[:_SHOWN]}; expected 0 or more, and 0 where unknown"
        )
    return value


def _node(where: str, entry: Entry, *, place: int, number: int) -> Node:
    fields: dict[str, Any] = {_KEYS[word].field: value for word, value in entry.items()}
    counted = fields.pop("", None) is not None
    name = fields.setdefault("name", f"n{number}")
    if "name" in entry and counted:
        fields["name"] = f"{name}-{place}"
    try:
        return Node(**fields)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None
