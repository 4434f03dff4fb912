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
from typing import Annotated

import msgspec
import yaml

from treadle.core.cluster import Node
from treadle.core.errors import InvalidInputError
from treadle.core.wording import mismatch
from treadle.traces.table import AMOUNT_MAX

_TEXT_MAX = 16 << 20
_Amount = Annotated[float, msgspec.Meta(ge=0, le=AMOUNT_MAX)]


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    devices: int
    count: Annotated[int, msgspec.Meta(ge=1)] | None = None
    name: str = ""
    type: str = "gpu"
    device_memory_gib: _Amount = 0.0
    cores: Annotated[int, msgspec.Meta(ge=0, le=int(AMOUNT_MAX))] = 0
    memory_gib: _Amount = 0.0
    rack: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    nodes: list[_Entry]


def yaml_nodes(name: str, text: str) -> Iterator[Node]:
    """The nodes of a YAML file; an error names the entry, or the line of what is no YAML."""
    if len(text) > _TEXT_MAX:
        raise InvalidInputError(f"{name} is larger than {_TEXT_MAX:,} characters; use counts")
    try:
        # All values as text: a name may be a number, and what is a number its field says.
        found = yaml.load(text, Loader=yaml.BaseLoader)
        entries = msgspec.convert(found, _File, strict=False).nodes
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as error:
        raise InvalidInputError(f"{name} is no list of nodes: {mismatch(str(error))}") from None
    number = 0
    for place, entry in enumerate(entries):
        for count in range(entry.count or 1):
            yield _node(f"{name} nodes[{place}]", entry, count, number)
            number += 1


def _node(where: str, entry: _Entry, place: int, number: int) -> Node:
    name = entry.name or f"n{number}"
    try:
        return Node(
            f"{name}-{place}" if entry.name and entry.count else name,
            entry.devices,
            device_type=entry.type,
            cores=entry.cores,
            memory_gib=entry.memory_gib,
            rack=entry.rack,
            device_memory_gib=entry.device_memory_gib,
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None
