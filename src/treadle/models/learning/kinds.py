"""Which jobs are alike: the kinds that a job belongs to, the closest first, and its arguments.

A learner adds an observation to every kind of the job and answers from the closest that it has
seen, with more doubt the farther they are. The live controller goes by owner, model name and
command (`by_command`): the same script file, a script of the same name, the same user, everything
here. Within one script, jobs are as close as their arguments make them (effects.py). Traces have no
command lines, so the simulator goes by the model's name, the owner and everything (`by_spec`).

A kind is a text, so that it can be the key of a stored row; `closeness` reads how close it is. Its
parts are escaped, so that no name of an owner, model or script reads as another kind.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath
from posixpath import normpath
from typing import NamedTuple

from treadle.core.job import JobSpec
from treadle.models.learning.commands import (
    NO_VARIABLES,
    Arguments,
    Command,
    digest,
    is_path,
    parsed,
    without_numbers,
)

Kind = str

EVERYTHING = "*"
FOLDER = "folder"  # where it runs, as an argument
_OF_NO_OWNER = (EVERYTHING, "job ", "model ")  # how kinds begin that have no owner
_FILE, _MODEL = "@", "~"  # how the last part of a kind begins, if it is no name of a script
_UNESCAPED = {"|": "/", "\\h": "#"}
_MARKS = (_FILE, _MODEL, "=", "^", "\\")


class Source(StrEnum):
    """What an expectation rests on, the closest first."""

    SAME_COMMAND = "same command"
    ALIKE = "alike"  # the same script with other arguments
    SAME_SCRIPT = "same script"  # a script of the same name elsewhere
    SAME_USER = "same user"
    EVERYTHING = "everything here"
    ITS_USER = "its user"  # the user said how long it takes
    NOTHING = "nothing"


FAR = (Source.SAME_USER, Source.EVERYTHING)  # other jobs, which have only a user or nothing alike


class Likeness(NamedTuple):
    """What a job has in common with others."""

    kinds: tuple[Kind, ...]  # the closest first
    arguments: Arguments = ()
    # The closest kind with the words among its arguments: jobs that differ in numbers and paths
    # alone are taken to get on alike with others.
    shape: str = ""
    name: str = ""  # of its script, for people


Kinds = Callable[[JobSpec], Likeness]


def by_model(spec: JobSpec) -> Likeness:
    """Jobs of one model that ask for as many devices train alike.

    The size is part of it because the batch grows with it, and an iteration with the batch. A job
    without a model learns for itself, as CoDDL's jobs do.
    """
    model = spec.profile.model
    kind = f"model {spec.asked} {model}" if model else f"job {spec.id}"
    return Likeness((kind,), shape=kind)


def by_spec(spec: JobSpec) -> Likeness:
    """Jobs of a trace: the same command if it has one, or model; the same user; everything."""
    if spec.command:
        return by_command(spec.owner or spec.tenant, spec.profile.model, spec.command)
    owner, model = _owner(spec.owner or spec.tenant), _part(spec.profile.model)
    close = (f"{owner}/{model}/{_MODEL}{spec.asked}",) if model else ()
    return Likeness((*close, f"{owner}/", EVERYTHING))


def by_command(
    owner: str,
    model: str,
    command: Sequence[str],
    *,
    folder: str = "",
    env: Mapping[str, str] = NO_VARIABLES,
) -> Likeness:
    """What a command that a user submits has in common with others; model: if its user named one.

    folder: where it runs, an absolute path; empty: not known. env: the variables its user gave.
    """
    found = parsed(command, env)
    start = f"{_owner(owner)}/{_part(model)}"
    file = f"{start}/{_FILE}{digest([*_file(found, folder)])}"
    place = ((FOLDER, normpath(folder)),) if folder else ()
    arguments = tuple(sorted((*found.arguments, *place)))
    words = [f"{name}={without_numbers(value)}" for name, value in arguments if not is_path(value)]
    kinds = (file, named_like(file, found.name), f"{_owner(owner)}/", EVERYTHING)
    return Likeness(kinds, arguments, f"{file} {digest(words)}", found.name)


def named_like(kind: Kind, name: str) -> Kind:
    """The kind of all scripts with this name, of the same owner and model."""
    escaped = f"\\{name}" if name.startswith(_MARKS) else name
    return f"{kind.rpartition('/')[0]}/{escaped}"


def script_id(kind: Kind) -> str:
    """Names a script for people, where several have one name."""
    return digest([kind])[:8]


def _file(found: Command, folder: str) -> tuple[str, ...]:
    """What is run: a `train.py` of another folder is another script, and so is a module."""
    if found.module:
        return (found.script, normpath(folder) if folder else "")
    return (normpath(PurePosixPath(folder, found.script)) if found.file else found.script,)


def _part(name: str) -> str:
    """A name as a part of a kind: models of some hubs have a slash, which separates parts here."""
    return name.replace("\\", "\\\\").replace("|", "\\|").replace("/", "|")


def _owner(name: str) -> str:
    """The first part: a size follows it behind "#", and it must not read as a kind of no owner."""
    part = _part(name).replace("#", "\\h")
    return f"\\{part}" if part.startswith(_OF_NO_OWNER) else part


@lru_cache(maxsize=4096)
def with_sizes(kinds: Sequence[Kind], size: int) -> tuple[Kind, ...]:
    """The kinds, and before each that is far from the job the part of it with as many devices."""
    found: list[Kind] = []
    for kind in kinds:
        if closeness(kind) in FAR:
            found.append(f"{kind}#{size}")
        found.append(kind)
    return tuple(found)


@lru_cache(maxsize=32_768)  # Asked of every kind of a job, several times at each of its events.
def closeness(kind: Kind) -> Source:
    """How close jobs of this kind are."""
    if kind == EVERYTHING or kind.startswith(f"{EVERYTHING}#"):
        return Source.EVERYTHING
    if kind.startswith(_OF_NO_OWNER):
        return Source.ALIKE
    parts = kind.split("/", 2)
    if len(parts) < 3:
        return Source.SAME_USER
    return Source.ALIKE if parts[2].startswith((_FILE, _MODEL)) else Source.SAME_SCRIPT


def of_commands(kind: Kind) -> bool:
    """Whether equal arguments of jobs of this kind make them the same command."""
    return kind.partition("/")[2].partition("/")[2].startswith(_FILE)


def owner_of(kind: Kind) -> str:
    """Whose jobs are of this kind, escaped; empty: of no single owner."""
    if kind.startswith(_OF_NO_OWNER):
        return ""
    return kind.partition("/")[0]


def owner_name(kind: Kind) -> str:
    """The same as it is written."""
    return re.sub(r"\\(.)|\|", lambda found: _UNESCAPED.get(found[0], found[1]), owner_of(kind))
