"""Which jobs are alike: the kinds that a job belongs to, the closest first.

A learner adds an observation to every kind of the job and answers from the closest kinds that it
has seen, with more doubt the farther they are. The live controller goes by owner, model name and
command line (`by_command`): the same command; the same needs (it differs only in how long it runs,
or its seed); the same script and arguments but for numbers and paths; the same script; the same
user; everything here. Traces have no command lines, so the
simulator goes by the model's name, the owner and everything (`by_spec`).

A kind is a text, so that it can be the key of a stored row; `closeness` reads how close it is.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath

from treadle.core.job import JobSpec

Kind = str
Kinds = Callable[[JobSpec], tuple[Kind, ...]]

EVERYTHING = "*"
NUMBERS_MAX = 16  # of one command line
_SCRIPTS = (".py", ".sh")  # the name of a script says what is run, the folder does not
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_HARMLESS = re.compile(
    r"--?(?:num[_-]?|n[_-]?|max[_-]?|total[_-]?|train[_-]?)*"
    r"(?:steps?|epochs?|iters?|iterations?|updates?|seed|lr|learning[_-]rate|weight[_-]decay|"
    r"(?:log|save|eval)[_-](?:every|interval|steps?)|run|trial|fold)",
    re.IGNORECASE,
)
_INTERPRETERS = (
    "python",
    "bash",
    "sh",
    "torchrun",
    "accelerate",
    "deepspeed",
    "env",
    "uv",
    "nohup",
)


class Source(StrEnum):
    """What an expectation rests on, the closest first."""

    SAME_COMMAND = "same command"
    SAME_NEEDS = "same needs"  # other steps, epochs or seeds: it uses what the others use
    ALIKE = "alike"  # but for numbers and paths
    SAME_SCRIPT = "same script"
    SAME_USER = "same user"
    EVERYTHING = "everything here"
    ITS_USER = "its user"  # the user said how long it takes
    NOTHING = "nothing"


FAR = (Source.SAME_USER, Source.EVERYTHING)  # other jobs, which have only a user or nothing alike


def by_model(spec: JobSpec) -> tuple[Kind, ...]:
    """Jobs of one model that ask for as many devices train alike.

    The size is part of it because the batch grows with it, and an iteration with the batch.
    """
    model = spec.profile.model
    return (f"model {spec.asked} {model}",) if model else by_job(spec)


def by_job(spec: JobSpec) -> tuple[Kind, ...]:
    """Every job learns for itself, as CoDDL's jobs do."""
    return (f"job {spec.id}",)


def by_spec(spec: JobSpec) -> tuple[Kind, ...]:
    """Jobs of a trace: the same command if it has one, or model; the same user; everything."""
    if spec.command:
        return by_command(spec.owner or spec.tenant, spec.profile.model, spec.command)
    owner, model = _part(spec.owner or spec.tenant), _part(spec.profile.model)
    close = (f"{owner}/{model}/~{spec.asked}",) if model else ()
    return (*close, f"{owner}/", EVERYTHING)


def by_command(owner: str, model: str, command: Sequence[str]) -> tuple[Kind, ...]:
    """The kinds of a command line that a user submits, and names a model or not."""
    owner, model = _part(owner), _part(model)
    same = f"{owner}/{model}/={_digest(command)}"
    alike = f"{owner}/{model}/~{_digest([_pattern(word) for word in command])}"
    needs = f"{owner}/{model}/^{_digest(_needing(command))}"
    script = f"{owner}/{model}/{_program(command)}"
    return (same, needs, alike, script, f"{owner}/", EVERYTHING)


def _part(name: str) -> str:
    """A name as a part of a kind: models of some hubs have a slash, which separates parts here."""
    return name.replace("/", "|")


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
    if kind.startswith("job "):
        return Source.SAME_COMMAND
    if kind.startswith("model "):
        return Source.ALIKE
    parts = kind.split("/", 2)
    if len(parts) < 3:
        return Source.SAME_USER
    match parts[2][:1]:
        case "=":
            return Source.SAME_COMMAND
        case "^":
            return Source.SAME_NEEDS
        case "~":
            return Source.ALIKE
        case _:
            return Source.SAME_SCRIPT


def owner_of(kind: Kind) -> str:
    """Whose jobs are of this kind; empty: of no single owner."""
    if kind.startswith((EVERYTHING, "job ", "model ")):
        return ""
    return kind.partition("/")[0]


def numbers(command: Sequence[str]) -> tuple[float, ...]:
    """The numbers in a command line, in order: commands that are alike have as many."""
    found: list[float] = []
    for word in command:
        if not _is_path(word):
            found += [_bounded(float(text[:40])) for text in _NUMBER.findall(word)]
    return tuple(found[:NUMBERS_MAX])


def _bounded(number: float) -> float:
    """A number that says nothing of a job, such as 1e999, counts as 0, so that places stay."""
    return number if 1e-12 < abs(number) < 1e15 else 0.0


def _needing(command: Sequence[str]) -> list[str]:
    """The command without numbers that change how long it runs, and not what it needs.

    Any other number may be a batch or a width, and another one needs other memory.
    """
    words, flag = [], ""
    for word in command:
        name, equals, value = word.partition("=")
        if _HARMLESS.fullmatch(flag) and _NUMBER.fullmatch(word):
            words.append("#")
        elif equals and _HARMLESS.fullmatch(name) and _NUMBER.fullmatch(value):
            words.append(f"{name}=#")
        else:
            words.append(word)
        flag = word
    return words


def _pattern(word: str) -> str:
    """A word of a command line without its numbers, or without the folder of its path."""
    if _is_path(word):
        path = PurePosixPath(word)
        return path.name if path.suffix in _SCRIPTS or not path.suffix else "/" + path.suffix
    return _NUMBER.sub("#", word)


def _is_path(word: str) -> bool:
    return "/" in word and not word.startswith("-")


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:24]


def _program(command: Sequence[str]) -> str:
    """What is run: the script behind an interpreter, or the program itself."""
    words = [word for word in command if not word.startswith("-")]
    names = [PurePosixPath(word).name for word in words[:4]]
    if not names:
        return ""
    for name in names:
        if not name.startswith(_INTERPRETERS) and "=" not in name:
            return name[:80]
    return names[0][:80]
