"""One rule of a YAML file, read field by field; an error names the rule, field and line."""

import signal
from collections.abc import Sequence

import yaml

from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.failures.verdict import KNOWN_REASONS

FIELDS = (
    "name",
    "class",
    "level",
    "exception",
    "line",
    "exit",
    "says",
    "retry",
    "elsewhere",
    "more",
    "off",
)
_TEXTS_MAX = 50
_TEXT_MAX = 400
_NAME_MAX = 60
_FLAGS = {"true": True, "false": False, "yes": True, "no": False}


class Reader:
    """The fields of one rule."""

    def __init__(self, file: str, line: int, fields: dict[str, yaml.Node]) -> None:
        self.file = file
        self.line = line
        self.fields = fields
        self.name = ""

    @classmethod
    def of(cls, file: str, item: yaml.Node) -> "Reader":
        line = item.start_mark.line + 1
        if not isinstance(item, yaml.MappingNode):
            raise InvalidInputError(f"{file} line {line}: expected a rule such as - name: ...")
        fields: dict[str, yaml.Node] = {}
        for key, node in item.value:
            where = f"{file} line {key.start_mark.line + 1}"
            field = key.value if isinstance(key, yaml.ScalarNode) else ""
            if field not in FIELDS:
                known = ", ".join(FIELDS)
                hint = did_you_mean(field, FIELDS)
                raise InvalidInputError(
                    f"{where}: unknown field {field[:60]!r}{hint} (known: {known})"
                )
            if key.value in fields:
                raise InvalidInputError(f"{where}: {key.value} is given twice; keep one")
            fields[key.value] = node
        if "name" not in fields:
            raise InvalidInputError(f"{file} line {line}: a rule needs a name")
        reader = cls(file, line, fields)
        reader.name = reader._checked_name()
        return reader

    def error(self, field: str, problem: str) -> InvalidInputError:
        node = self.fields.get(field)
        line = node.start_mark.line + 1 if node is not None else self.line
        rule = f"rule {self.name}: " if self.name else ""
        return InvalidInputError(f"{self.file} line {line}: {rule}{field} {problem}")

    def text(self, field: str, unless: str | None = None) -> str:
        node = self.fields.get(field)
        if node is None:
            if unless is None:
                raise self.error(field, "is missing")
            return unless
        text = node.value.strip() if isinstance(node, yaml.ScalarNode) else ""
        if not text:
            raise self.error(field, "is empty or no text; expected a few words")
        if len(text) > _TEXT_MAX or not text.isprintable():
            raise self.error(field, f"is longer than {_TEXT_MAX} characters or not printable")
        return str(text)

    def choice(self, field: str, known: Sequence[str], unless: str | None = None) -> str:
        text = self.text(field, unless)
        if field in self.fields and text not in known:
            expected = ", ".join(known)
            raise self.error(
                field, f"is {text[:60]!r}{did_you_mean(text, known)}; expected one of {expected}"
            )
        return text

    def flag(self, field: str, *, unless: bool) -> bool:
        if field not in self.fields:
            return unless
        text = self.text(field).lower()
        if text not in _FLAGS:
            raise self.error(field, f"is {text[:60]!r}; expected true or false")
        return _FLAGS[text]

    def texts(self, field: str) -> list[str]:
        """One text or a list of them; an absent field is an empty list."""
        node = self.fields.get(field)
        if node is None:
            return []
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if len(nodes) > _TEXTS_MAX:
            raise self.error(field, f"has {len(nodes):,} entries; {_TEXTS_MAX} are the limit")
        for entry in nodes:
            if not isinstance(entry, yaml.ScalarNode) or not entry.value.strip():
                raise self.error(field, "holds an entry that is empty or no text")
        return [entry.value for entry in nodes]

    def exits(self) -> tuple[str, ...]:
        texts = self.texts("exit")
        for text in texts:
            if text in KNOWN_REASONS or text in signal.Signals.__members__:
                continue
            if text in map(str, range(1, 256)):
                continue
            raise self.error(
                "exit",
                f"{text[:60]!r} is no exit status; expected 1 to 255, a signal such as SIGSEGV, or "
                f"one of {', '.join(KNOWN_REASONS)}",
            )
        return tuple(texts)

    def _checked_name(self) -> str:
        name = self.text("name")
        if len(name) > _NAME_MAX or not name.replace("-", "").replace("_", "").isalnum():
            raise self.error("name", f"is {name[:60]!r}; expected letters, digits and dashes")
        return name
