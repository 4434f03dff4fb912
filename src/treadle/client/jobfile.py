"""A job as people describe it, from a YAML file, a script or flags, made into a request.

Each source becomes a Draft: the fields it gives and no others. Drafts are laid over each other, the
later one wins, and `complete` makes the request. The fields, all optional:

    name: bert-sft
    run: torchrun train.py --lr 1e-4      # a line for /bin/bash -c; or command: [torchrun, ...]
    devices: 2..8                         # 4, a range 2..8, or the sizes 1,2,4
    ranks: auto                           # auto, device, one
    workdir: .                            # relative to this file
    env: {WANDB_PROJECT: x, HF_HOME: null}     # null: taken from the submitter's environment
    secrets: [HF_TOKEN]                   # likewise, and never shown
    tenant: nlp
    priority: normal                      # low, normal, high, urgent, or a whole number
    guaranteed: true
    resumable: true
    time_limit: 12h                       # 90s, 45m, 12h, 2d, 1h30m, 1-12:00:00
    memory: 16G                           # host memory of the whole job on a node
    cpus: 4                               # cores of the whole job on a node
    grace: 120s
    stop_signal: SIGTERM
    retries: 3
    after: [12, 13]                       # must end well first; after_any: must end
    array: 0-99%8
    model: bert-large
    estimate: 3h
    held: false
    wait_for_capacity: false              # true: queue it even if it fits no device here
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.client.jobfile_yaml import BYTES_MAX, Items, Pairs, Text, Tree, kind_of, read_yaml
from treadle.core.errors import InvalidInputError
from treadle.core.wording import did_you_mean
from treadle.wire import notation as values
from treadle.wire.jobs import Code, JobRequest
from treadle.wire.notation import CARRIED, shown

SHELL = ("/bin/bash", "-c")
WORDS_MAX = 4096
ENTRIES_MAX = 1000
RETRIES_MAX = 100
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


def _field(target: str, expected: str, parse: Callable[[str, str], object]) -> _Reader:
    """A reader for one scalar."""

    def read(draft: Draft, tree: Tree, where: str) -> None:
        draft.fields[target] = parse(_scalar(tree, where, expected), where)

    return read


def _flag(text: str, where: str) -> bool:
    known = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if text.strip().lower() not in known:
        raise InvalidInputError(f"{where}: expected true or false, found {shown(text)}")
    return known[text.strip().lower()]


def _plain(text: str, where: str) -> str:  # noqa: ARG001
    return text


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


def _devices(draft: Draft, tree: Tree, where: str) -> None:
    listed = ",".join(_texts(tree, where, "a list")) if isinstance(tree, Items) else None
    expected = "a number such as 4, a range such as 2..8, or sizes such as [1, 2, 4]"
    text = _scalar(tree, where, expected) if listed is None else listed
    draft.fields["devices"] = values.devices(text, where)


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


def _jobs(target: str) -> _Reader:
    def read(draft: Draft, tree: Tree, where: str) -> None:
        listed = _texts(tree, where, "a list") if isinstance(tree, Items) else None
        text = _scalar(tree, where, "ids such as [12, 13]") if listed is None else ",".join(listed)
        draft.fields[target] = values.identities(text, where) if text else ()

    return read


def _device_type(draft: Draft, tree: Tree, where: str) -> None:
    listed = _texts(tree, where, "a list") if isinstance(tree, Items) else None
    text = _scalar(tree, where, "a type such as h200") if listed is None else ",".join(listed)
    draft.fields["device_type"] = values.device_type(text, where) if text else ""


def array_text(text: str, where: str) -> str:
    """An array as it is sent, once it is known to be one."""
    values.array(text, where)
    return "".join(text.split())


def _retries(text: str, where: str) -> int:
    return values.count(text, where, most=RETRIES_MAX)


_LENGTH = "a duration such as 12h"
_READERS: dict[str, _Reader] = {
    "name": _field("name", "a name", values.job_name),
    "run": _run,
    "command": _command,
    "devices": _devices,
    "device_type": _device_type,
    "ranks": _field("ranks", "auto, device or one", values.ranks),
    "workdir": _field("workdir", "a folder", _plain),
    "env": _env,
    "secrets": _secrets,
    "tenant": _field("tenant", "a name", _plain),
    "priority": _field("priority", "a whole number or a word", values.priority),
    "guaranteed": _field("guaranteed", "true or false", _flag),
    "resumable": _field("resumable", "true or false", _flag),
    "time_limit": _field("time_limit_s", _LENGTH, values.duration),
    "memory": _field("memory_gib", "an amount such as 16G", values.memory),
    "cpus": _field("cpus", "a number of cores", values.cpus),
    "gpu_memory": _field("gpu_memory_gib", "an amount such as 20G", values.memory),
    "exclusive": _field("exclusive", "true or false", _flag),
    "warm": _field("warm", "true or false", _flag),
    "elastic": _field("elastic", "auto or no", values.elastic),
    "grace": _field("grace_s", _LENGTH, values.duration),
    "stop_signal": _field("stop_signal", "a signal such as SIGTERM", values.stop_signal),
    "retries": _field("retries", "a whole number", _retries),
    "after": _jobs("after"),
    "after_any": _jobs("after_any"),
    "array": _field("array", "numbers such as 0-99%8", array_text),
    "model": _field("model", "a name", _plain),
    "estimate": _field("estimate_s", _LENGTH, values.duration),
    "held": _field("held", "true or false", _flag),
    "wait_for_capacity": _field("wait_for_capacity", "true or false", _flag),
}
KNOWN_FIELDS = tuple(_READERS)
