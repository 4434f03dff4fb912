"""A job as people describe it, from a YAML file, a script or flags, made into a request.

Each source becomes a Draft: the fields it gives and no others. Drafts are laid over each other, the
later one wins, and `complete` makes the request. docs/jobs.md lists the fields, and
wire/job_fields.py says how they are read.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.wire.job_fields import FIELDS, Field
from treadle.wire.jobs import Code, JobRequest
from treadle.wire.notation import CARRIED, shown
from treadle.wire.yaml_tree import BYTES_MAX, Items, Pairs, Text, Tree, kind_of, read_yaml

SHELL = ("/bin/bash", "-c")
WORDS_MAX = 4096
ENTRIES_MAX = 1000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Given:
    """A variable: its value, or None if the environment must have it, and who asks."""

    value: str | None
    where: str


@dataclass(slots=True)
class Draft:
    """Some fields of a request, as one source gives them."""

    fields: dict[str, Any] = field(default_factory=dict)  # by their names in JobRequest
    env: dict[str, Given] = field(default_factory=dict)
    secrets: dict[str, Given] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def under(self, other: "Draft") -> "Draft":
        """Both, where the other wins."""
        return Draft(
            {**self.fields, **other.fields},
            {**self.env, **other.env},
            {**self.secrets, **other.secrets},
            [*self.notes, *other.notes],
        )


def complete(
    draft: Draft, environ: Mapping[str, str], *, workdir: str, code: Code | None = None
) -> JobRequest:
    """The request: variables looked up, the command there, the workdir absolute."""
    fields = dict(draft.fields)
    if not fields.get("command"):
        raise InvalidInputError(
            "no command given; write it after --, as in treadle submit -- python "
            "train.py, "
            "or as run: in a file"
        )
    for name in sorted(draft.secrets.keys() & draft.env.keys()):
        if draft.env[name].value is not None:
            raise InvalidInputError(
                f"{draft.env[name].where}: {name} is a secret, but its value is given here, "
                "where it would be shown; leave the value out"
            )
    carried = {name: environ[name] for name in CARRIED if name in environ}
    env = {name: _looked_up(name, given, environ) for name, given in draft.env.items()}
    secrets = {name: _looked_up(name, given, environ) for name, given in draft.secrets.items()}
    shown_env = {name: value for name, value in {**carried, **env}.items() if name not in secrets}
    fields["workdir"] = within(workdir, fields.get("workdir", ""), "workdir")
    request = JobRequest(**fields, env=shown_env, secrets=secrets, code=code)
    _check_text(request)
    return request


def read_job_file(path: str, text: str) -> Draft:
    """The fields of a YAML file."""
    name = Path(path).name
    draft = Draft()
    pairs = read_yaml(name, text)
    for key, tree in pairs.values.items():
        where = f"{name} line {pairs.lines[key]}"
        reader = _READERS.get(key)
        if reader is None:
            hint = did_you_mean(key, _READERS) or f" (known: {', '.join(_READERS)})"
            raise InvalidInputError(f"{where}: unknown field {shown(key)}{hint}")
        reader(draft, tree, f"{where}: {key}")
    if "run" in pairs.values and "command" in pairs.values:
        raise InvalidInputError(
            f"{name} line {pairs.lines['command']}: both run and command are given; keep one"
        )
    folder = draft.fields.get("workdir")
    if folder is not None:
        # A file that is passed around must mean the same from everywhere.
        where = f"{name} line {pairs.lines['workdir']}: workdir"
        draft.fields["workdir"] = within(str(Path(path).absolute().parent), folder, where)
    return draft


def within(base: str, folder: str, where: str) -> str:
    """A folder as seen from another, absolute and without dots; ~ is a home."""
    try:
        path = Path(base) / Path(folder).expanduser()
        # Two dots after a link lead where the system says, not where the text does.
        return str(path.resolve() if ".." in path.parts else path)
    except (RuntimeError, OSError, ValueError):
        raise InvalidInputError(f"{where} is {shown(folder)}, which cannot be resolved") from None


def read_head(path: str) -> str:
    """The first part of a script, in which its options stand."""
    try:
        with Path(path).open("rb") as file:
            return file.read(BYTES_MAX).decode(errors="replace")
    except OSError as error:
        raise InvalidInputError(f"{shown(path)} cannot be read: {error.strerror}") from None


def read_text(path: str) -> str:
    """A job file as text; what is not one is refused by name."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInputError(f"{shown(path)} cannot be read: {error.strerror}") from None
    except ValueError:
        raise InvalidInputError(
            f"{shown(path)} is not a valid path: it contains a NUL byte"
        ) from None
    if len(content) > BYTES_MAX:
        raise InvalidInputError(f"{path} is larger than {BYTES_MAX // 1024} KiB")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not UTF-8 text, at byte {error.start}") from None


def read_env_file(path: str, text: str) -> dict[str, Given]:
    """Lines NAME=value; NAME alone is taken from the environment, # begins a comment line."""
    found: dict[str, Given] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip().removeprefix("export ").strip()
        if not stripped or stripped.startswith("#"):
            continue
        where = f"{Path(path).name} line {number}"
        name, equals, value = stripped.partition("=")
        found[variable_name(name.strip(), where)] = Given(
            _unquoted(value.strip()) if equals else None, where
        )
    return found


def variable_name(name: str, where: str) -> str:
    """The name of an environment variable, if it is one."""
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{where}: {shown(name)} is not a valid variable name; expected one such as HF_HOME"
        )
    return name


def _unquoted(value: str) -> str:
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _looked_up(name: str, given: Given, environ: Mapping[str, str]) -> str:
    if given.value is not None:
        return given.value
    if name not in environ:
        raise InvalidInputError(
            f"{given.where}: {name} must come from your environment, where it is not set; "
            "export it and submit again"
        )
    return environ[name]


def _check_text(request: JobRequest) -> None:
    """Nothing that a process cannot be given, or that cannot be sent."""
    single = {"name": request.name, "workdir": request.workdir, "tenant": request.tenant}
    single |= {"model": request.model}
    listed = [(f"word {place} of the command", word) for place, word in enumerate(request.command)]
    variables = [*request.env.items(), *request.secrets.items()]
    for what, text in [*single.items(), *listed, *variables]:
        if "\0" in text:
            raise InvalidInputError(f"{what} contains a NUL byte")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(f"{what} is not UTF-8 text") from None


# -- fields of a YAML file -----------------------------------------------------------------------

_Reader = Callable[[Draft, Tree, str], None]


def _scalar(tree: Tree, where: str, expected: str) -> str:
    if not isinstance(tree, Text) or tree.text is None:
        raise InvalidInputError(f"{where}: expected {expected}, found {kind_of(tree)}")
    return tree.text


def _reader(field: Field) -> _Reader:
    """Of one text, or of several where the field may have them."""

    def read(draft: Draft, tree: Tree, where: str) -> None:
        if field.kind.listed and isinstance(tree, Items):
            text = ",".join(_texts(tree, where, "a list"))
        else:
            text = _scalar(tree, where, field.kind.expected)
        draft.fields[field.of_request] = field.value(text, where)

    return read


def _texts(tree: Tree, where: str, expected: str) -> list[str]:
    if not isinstance(tree, Items):
        raise InvalidInputError(f"{where}: expected {expected}, found {kind_of(tree)}")
    if len(tree.items) > WORDS_MAX:
        raise InvalidInputError(f"{where}: expected at most {WORDS_MAX} entries")
    return [_scalar(item, where, f"{expected} of texts") for item in tree.items]


def _run(draft: Draft, tree: Tree, where: str) -> None:
    line = _scalar(tree, where, "a line for the shell")
    if not line.strip():
        raise InvalidInputError(f"{where}: the line is empty; expected a command")
    draft.fields["command"] = (*SHELL, line)


def _command(draft: Draft, tree: Tree, where: str) -> None:
    words = _texts(tree, where, "a list")
    if not words:
        raise InvalidInputError(f"{where}: the list is empty; expected a program and its arguments")
    draft.fields["command"] = tuple(words)


def _env(draft: Draft, tree: Tree, where: str) -> None:
    if not isinstance(tree, Pairs):
        raise InvalidInputError(
            f"{where}: expected a map such as {{A: x, B: null}}, found {kind_of(tree)}"
        )
    if len(tree.values) > ENTRIES_MAX:
        raise InvalidInputError(f"{where}: expected at most {ENTRIES_MAX} variables")
    file = where.rpartition(" line ")[0]
    for name, value in tree.values.items():
        spot = f"{file} line {tree.lines[name]}"
        if not isinstance(value, Text):
            raise InvalidInputError(f"{spot}: {shown(name)} is {kind_of(value)}; expected a text")
        draft.env[variable_name(name, spot)] = Given(value.text, spot)


def _secrets(draft: Draft, tree: Tree, where: str) -> None:
    if isinstance(tree, Pairs):
        raise InvalidInputError(
            f"{where}: expected names such as [HF_TOKEN], found a map; values come from your "
            "environment and are never written in the file"
        )
    file = where.rpartition(": ")[0]
    for name in _texts(tree, where, "a list")[:ENTRIES_MAX]:
        draft.secrets[variable_name(name, file)] = Given(None, file)


_READERS: dict[str, _Reader] = {
    "run": _run,
    "command": _command,
    "env": _env,
    "secrets": _secrets,
    **{field.name: _reader(field) for field in FIELDS},
}
KNOWN_FIELDS = tuple(_READERS)
