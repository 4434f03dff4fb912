"""YAML from untrusted files: a small tree with line numbers, made from parse events only.

No tag is ever resolved, so no object is ever built: a scalar stays the text that was written. What
YAML offers beyond maps, lists and scalars is refused by name: anchors and aliases (a few lines of
them can mean gigabytes), tags, several documents, keys given twice.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from treadle.core.errors import InvalidInputError
from treadle.wire.notation import shown

BYTES_MAX = 64 * 1024
DEPTH_MAX = 8
_NULLS = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar as it was written; None where it says null."""

    text: str | None
    line: int


@dataclass(frozen=True, slots=True)
class Items:
    items: list["Tree"]
    line: int


@dataclass(frozen=True, slots=True)
class Pairs:
    """A map, in the order of the file, with the line of each key."""

    values: dict[str, "Tree"]
    line: int
    lines: dict[str, int] = field(default_factory=dict)


Tree = Text | Items | Pairs


def read_yaml(name: str, text: str) -> Pairs:
    """The one map that the text holds; an empty text is an empty map."""
    if len(text) > BYTES_MAX or len(text.encode(errors="replace")) > BYTES_MAX:
        raise InvalidInputError(f"{name} is larger than {BYTES_MAX // 1024} KiB")
    trees: list[Tree] = []
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and trees:
                raise InvalidInputError(
                    f"{name} line {_line(event)}: a second document begins; expected one"
                )
            if isinstance(event, yaml.NodeEvent):
                trees.append(_Build(name, events).tree(event, 1))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name} line {mark.line + 1}" if mark else name
        problem = str(getattr(error, "problem", None) or getattr(error, "reason", "not readable"))
        raise InvalidInputError(f"{where} is not YAML: {shown(problem)[1:-1]}") from None
    except (ValueError, OverflowError, RecursionError):
        # The scanner turns "\\UFFFFFFFF" and a version of 5,000 digits into these.
        raise InvalidInputError(
            f"{name} is not YAML: a character or number is out of range"
        ) from None
    tree = trees[0] if trees else Pairs({}, 1)
    if isinstance(tree, Text) and tree.text is None:
        return Pairs({}, tree.line)
    if not isinstance(tree, Pairs):
        raise InvalidInputError(
            f"{name} line {tree.line}: expected fields such as devices: 4, found {kind_of(tree)}"
        )
    return tree


def kind_of(tree: Tree) -> str:
    """What stands there, for the sentence that refuses it."""
    if isinstance(tree, Items):
        return "a list"
    if isinstance(tree, Pairs):
        return "a map"
    return "nothing" if tree.text is None else shown(tree.text)


class _Build:
    """Takes events until the node that began is complete."""

    def __init__(self, name: str, events: Iterator[yaml.Event]) -> None:
        self._name = name
        self._events = events

    def tree(self, event: yaml.Event, depth: int) -> Tree:
        line = _line(event)
        where = f"{self._name} line {line}"
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise InvalidInputError(f"{where}: anchors and aliases (& and *) are not supported")
        if getattr(event, "tag", None) is not None:
            raise InvalidInputError(f"{where}: tags (!) are not supported")
        if depth > DEPTH_MAX:
            raise InvalidInputError(f"{where}: nested more than {DEPTH_MAX} deep")
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style is None
            return Text(
                None if plain and event.value in _NULLS else _sound(event.value, where), line
            )
        if isinstance(event, yaml.SequenceStartEvent):
            return Items(list(self._items(depth)), line)
        assert isinstance(event, yaml.MappingStartEvent)
        return self._pairs(line, depth)

    def _items(self, depth: int) -> Iterator[Tree]:
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                return
            yield self.tree(event, depth + 1)

    def _pairs(self, line: int, depth: int) -> Pairs:
        found = Pairs({}, line)
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self.tree(event, depth + 1)
            where = f"{self._name} line {key.line}"
            if not isinstance(key, Text) or key.text is None:
                raise InvalidInputError(f"{where}: expected a name before the colon")
            if key.text in found.values:
                raise InvalidInputError(
                    f"{where}: {shown(key.text)} is given twice, first on line "
                    f"{found.lines[key.text]}; keep one"
                )
            found.lines[key.text] = key.line
            found.values[key.text] = self.tree(next(self._events), depth + 1)
        return found


def _sound(text: str, where: str) -> str:
    """Text that can be sent: an escape may spell half a character, or a NUL byte."""
    if "\0" in text or any("\ud800" <= mark <= "\udfff" for mark in text):
        raise InvalidInputError(f"{where}: the text contains a NUL byte or half a character")
    return text


def _line(event: yaml.Event) -> int:
    return int(event.start_mark.line) + 1 if event.start_mark else 1
