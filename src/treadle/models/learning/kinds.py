"""Which jobs are alike: the kinds that a job belongs to, the closest first.

A learner adds an observation to every kind of the job and answers from the closest kinds that it
has seen, with more doubt the farther they are. The live controller goes by owner, model name and
command (`by_command`): the same command in the same folder with the same variables; the same needs
(it differs only in how long it runs, or its seed); the same script file, arguments and variables
but for numbers and other paths; a script of the same name; the same user; everything here. Traces
have no command lines, so the simulator goes by the model's name, the owner and everything
(`by_spec`).

A kind is a text, so that it can be the key of a stored row; `closeness` reads how close it is. Its
parts are escaped, so that no name of an owner, model or script reads as another kind.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath
from posixpath import normpath
from types import MappingProxyType

from treadle.core.job import JobSpec

Kind = str
Kinds = Callable[[JobSpec], tuple[Kind, ...]]

EVERYTHING = "*"
_OF_NO_OWNER = (EVERYTHING, "job ", "model ")  # how kinds begin that have no owner
NUMBERS_MAX = 16  # of one command line
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
_SCRIPTS = (".py", ".sh")
_MARKS = ("=", "^", "~", "\\")  # how the last part of a kind begins, if it is no name of a script
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_HARMLESS = re.compile(
    r"--?(?:num[_-]?|n[_-]?|max[_-]?|total[_-]?|train[_-]?)*"
    r"(?:steps?|epochs?|iters?|iterations?|updates?|seed|lr|learning[_-]rate|weight[_-]decay|"
    r"(?:log|save|eval)[_-](?:every|interval|steps?)|run|trial|fold)",
    re.IGNORECASE,
)
_INLINE = re.compile(r"-[a-z]*c")  # the next word is the program, as in `bash -lc`
_TAKE_TEXT = ("bash", "sh", "dash", "zsh", "python")
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

    The size is part of it because the batch grows with it, and an iteration with the batch. A job
    without a model learns for itself, as CoDDL's jobs do.
    """
    model = spec.profile.model
    return (f"model {spec.asked} {model}" if model else f"job {spec.id}",)


def by_spec(spec: JobSpec) -> tuple[Kind, ...]:
    """Jobs of a trace: the same command if it has one, or model; the same user; everything."""
    if spec.command:
        return by_command(spec.owner or spec.tenant, spec.profile.model, spec.command)
    owner, model = _owner(spec.owner or spec.tenant), _part(spec.profile.model)
    close = (f"{owner}/{model}/~{spec.asked}",) if model else ()
    return (*close, f"{owner}/", EVERYTHING)


def by_command(
    owner: str,
    model: str,
    command: Sequence[str],
    *,
    folder: str = "",
    env: Mapping[str, str] = NO_VARIABLES,
) -> tuple[Kind, ...]:
    """The kinds of a command that a user submits, and names a model or not.

    folder: where it runs, an absolute path; empty: not known. env: the variables its user gave.
    """
    start = f"{_owner(owner)}/{_part(model)}"
    place = [f"in {normpath(folder)}"] if folder else []
    words = _words(command)
    alike = [*map(_pattern, words), *_script_folder(command, folder), *_variables(env, _pattern)]
    needs = [*_needing(words), *place, *_variables(env, str, harmless="#")]
    same = f"{start}/={_digest([*command, *place, *_variables(env, str)])}"
    return (
        same,
        f"{start}/^{_digest(needs)}",
        f"{start}/~{_digest(alike)}",
        f"{start}/{_script(command)}",
        f"{_owner(owner)}/",
        EVERYTHING,
    )


def _part(name: str) -> str:
    """A name as a part of a kind: models of some hubs have a slash, which separates parts here."""
    return name.replace("\\", "\\\\").replace("|", "\\|").replace("/", "|")


def _owner(name: str) -> str:
    """The first part: a size follows it behind "#", and it must not read as a kind of no owner."""
    part = _part(name).replace("#", "\\h")
    return f"\\{part}" if part.startswith(_OF_NO_OWNER) else part


def _script(command: Sequence[str]) -> str:
    name = _program(command)
    return f"\\{name}" if name.startswith(_MARKS) else name


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


def needs_kind(kinds: Sequence[Kind]) -> Kind:
    """Of a job's kinds the one whose jobs use what it uses."""
    return next(kind for kind in kinds if closeness(kind) is Source.SAME_NEEDS)


def owner_of(kind: Kind) -> str:
    """Whose jobs are of this kind; empty: of no single owner."""
    if kind.startswith(_OF_NO_OWNER):
        return ""
    return kind.partition("/")[0]


def numbers(command: Sequence[str], env: Mapping[str, str] = NO_VARIABLES) -> tuple[float, ...]:
    """The numbers of a command and its variables, in order: alike commands have as many."""
    found: list[float] = []
    for word in (*_words(command), *(env[name] for name in sorted(env))):
        if not _is_path(word):
            found += [_bounded(float(text)) for text in _NUMBER.findall(word)]
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


def _variables(
    env: Mapping[str, str], shown: Callable[[str], str], *, harmless: str | None = None
) -> list[str]:
    """Variables as further words; harmless: in place of a number that needs nothing."""
    return [
        f"{name}={harmless}"
        if harmless is not None
        and _HARMLESS.fullmatch(f"--{name}")
        and _NUMBER.fullmatch(env[name])
        else f"{name}={shown(env[name])}"
        for name in sorted(env)
    ]


def _script_folder(command: Sequence[str], folder: str) -> list[str]:
    """Where the file is that is run: a `train.py` of another folder is another script.

    Nothing of a program that is looked for on the PATH, or if the folder is not known.
    """
    word = _program_word(command)
    names_file = "/" in word or word.endswith(_SCRIPTS) or (word and word != command[0])
    if not folder or not names_file:
        return []
    return [f"of {normpath(PurePosixPath(folder, word).parent)}"]


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
    return PurePosixPath(_program_word(command)).name[:80]


def _inline(command: Sequence[str]) -> str | None:
    """The program that is given as a word, as in `bash -c TEXT`; None: there is none."""
    for flag, text in pairwise(command[1:]):
        if not flag.startswith("-"):
            return None
        if _INLINE.fullmatch(flag):
            name = PurePosixPath(command[0]).name
            return text if name.startswith(_TAKE_TEXT) else None
    return None


def _words(command: Sequence[str]) -> list[str]:
    """The words of a command, and those of a program that is one of them."""
    text = _inline(command)
    if text is None:
        return [*command]
    at = command.index(text)
    return [*command[:at], *text.split(), *command[at + 1 :]]


def _program_word(command: Sequence[str]) -> str:
    text = _inline(command)
    if text is not None:
        # The script it runs; else it is a script of its own, whatever numbers are in it.
        script = next((word for word in text.split() if word.endswith(_SCRIPTS)), "")
        return script or f"-c {_digest([_NUMBER.sub('#', text)])}"
    words = [word for word in command if not word.startswith("-")][:4]
    for word in words:
        name = PurePosixPath(word).name
        if not name.startswith(_INTERPRETERS) and "=" not in name:
            return word
    return words[0] if words else ""
