"""What a command line runs, and with which arguments.

    torchrun --nproc-per-node 2 train.py --lr 0.1 30    train.py    --lr 0.1, #1 30
    python -m lab.evaluate --samples=100                lab.evaluate    --samples 100
    bash -c 'cd x && python train.py --lr 0.1'          train.py    --lr 0.1, shell "cd x &&"
    bash -c 'for i in $(seq 57); do ...'                the text without its numbers    #1 57

Two runs are of the same script if they run the same file, whatever starts it. What else stands in
the command is an argument with a name: an option, the place of a plain word, a variable.
"""

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, takewhile
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

Arguments = tuple[tuple[str, str], ...]  # names and values, by name

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
GIVEN = "yes"  # the value of an option that has none
ARGUMENTS_MAX = 32  # of one command that are told apart
VALUE_MAX = 60  # characters of a value; of a longer one a digest is kept
TEXT_MAX = 4000  # characters of a shell's text that are looked at
DEPTH_MAX = 8  # wrappers in wrappers

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})
_SUFFIXES = (".py", ".sh")
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_NAMED = re.compile(r"([+~]{0,2}[A-Za-z_][\w.@/-]*)=(.*)", re.DOTALL)
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?:[kKmMgGtT](?:i?[bB])?|[shd])?(?![\w.])"
)
# Where a command's output goes and its input comes from: neither is an argument.
_REDIRECTED = re.compile(r"[\d&]?>{1,2}\s*(?:&\d|[^\s;&|()<>]+)|(?<!<)<(?![<(])\s*[^\s;&|()<>]+")
_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "s": 1.0, "h": 3600.0, "d": 86400.0}
# Programs that start the one named behind their options, and those that need a word before that.
_STARTERS = (
    "torchrun deepspeed horovodrun mpirun mpiexec srun env nohup nice ionice time timeout exec "
    "stdbuf numactl taskset setsid sudo command caffeinate chrt xvfb-run"
)
_RUNNERS = "uv conda mamba micromamba poetry pixi pipenv pdm rye hatch coverage"
_WRAPPERS: Mapping[str, str] = {
    **dict.fromkeys(_STARTERS.split(), ""),
    **dict.fromkeys(_RUNNERS.split(), "run"),
    "accelerate": "launch",
    "nsys": "profile",
}
_MODULES = {  # that are started as modules and are wrappers themselves
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "torchrun",
    "deepspeed.launcher.runner": "deepspeed",
    "coverage": "coverage",
}
_KEYWORDS = frozenset({"do", "then", "else", "elif", "if", "while", "until", "!", "{", "time"})
_BETWEEN = ";&|()<>\n"


class Command(NamedTuple):
    """What is run."""

    script: str  # as it was written: a file, a module, a program, or a digest of a text
    name: str  # for people
    arguments: Arguments
    file: bool = False  # the script is a file, rather than a program that is looked for
    module: bool = False


def parsed(words: Sequence[str], env: Mapping[str, str] = NO_VARIABLES) -> Command:
    """What a command runs; env: the variables its user gave."""
    found = _parsed(list(words), 0)
    given = [(f"${name}", value) for name, value in env.items()]
    return found._replace(arguments=_kept(chain(found.arguments, given)))


@lru_cache(maxsize=8192)  # The same few values are looked at for every run.
def number(value: str) -> float | None:
    """The number that a value is, such as 30, 1e-3 or 20M; None: it is none, or says nothing."""
    match = _NUMBER.fullmatch(value)
    if match is None:
        return None
    digits = value.rstrip("kKmMgGtTiIbBshd")
    unit = value[len(digits) :][:1].lower()
    read = float(digits) * _UNITS.get(unit, 1.0)
    return read if read == 0 or 1e-15 < abs(read) < 1e18 else None


def is_shell(words: Sequence[str]) -> bool:
    """Whether a shell reads the command, and puts variables in."""
    return bool(words) and PurePosixPath(words[0]).name in _SHELLS


def in_words(name: str) -> str:
    """The name of an argument, for people."""
    return f"argument {name[1:]}" if name.startswith("#") else name


def without_numbers(text: str) -> str:
    return _NUMBER.sub("#", text)


def is_path(value: str) -> bool:
    return "/" in value


def _parsed(words: list[str], depth: int) -> Command:
    if given := list(takewhile(_VARIABLE.fullmatch, words)):
        variables = [word.partition("=") for word in given]
        rest = _parsed(words[len(given) :], depth)
        return _with(rest, [(f"${name}", value) for name, _, value in variables])
    if not words:
        return Command("", "", ())
    name = PurePosixPath(words[0]).name
    found: Command | None = None
    if depth < DEPTH_MAX:
        if _PYTHON.fullmatch(name):
            found = _python(words[1:], depth)
        elif name in _SHELLS:
            found = _shell(words[1:], depth)
        elif name in _WRAPPERS:
            found = _wrapped(name, words[1:], depth)
    return found or _plain(words)


def _plain(words: Sequence[str], *, file: bool | None = None, module: bool = False) -> Command:
    """A program, and what it is given."""
    script = words[0]
    is_file = "/" in script or script.endswith(_SUFFIXES) if file is None else file
    name = script if module else PurePosixPath(script).name
    return Command(script, name[:80], tuple(_given(words[1:])), is_file and not module, module)


def _python(words: list[str], depth: int) -> Command | None:
    at = 0
    while at < len(words):
        word = words[at]
        if not word.startswith("-") or word == "-":
            return _plain(words[at:], file=True)
        if word.startswith("-m") and not word.startswith("--"):
            rest = [word[2:], *words[at + 1 :]] if len(word) > 2 else words[at + 1 :]
            if rest and rest[0] in _MODULES:
                return _parsed([_MODULES[rest[0]], *rest[1:]], depth + 1)
            return _plain(rest, module=True) if rest else None
        if re.fullmatch(r"-[a-zA-Z]*c", word):
            return _text("python -c", words[at + 1 :], words[at + 2 :])
        at += 2 if word in {"-W", "-X"} else 1
    return None


def _shell(words: list[str], depth: int) -> Command | None:
    at = 0
    while at < len(words):
        word = words[at]
        if not word.startswith(("-", "+")):
            return _plain(words[at:], file=True)
        if re.fullmatch(r"-[a-z]*c", word):
            return _inline(words[at + 1 :], depth)
        at += 2 if word in {"-o", "+o", "-O", "--rcfile", "--init-file"} else 1
    return None


def _wrapped(wrapper: str, words: list[str], depth: int) -> Command | None:
    """What another program starts, with that program's options as arguments."""
    if needed := _WRAPPERS[wrapper]:
        if not words or words[0] != needed:
            return None
        words = words[1:]
    options: list[tuple[str, str]] = []
    at = 0
    while at < len(words):
        word, then = words[at], words[at + 1] if at + 1 < len(words) else ""
        name, equals, value = word.partition("=")
        if word == "--" or not word.startswith("-"):
            rest = words[at + (word == "--") :]
            variable = _VARIABLE.fullmatch(word)
            if variable:
                options.append((f"${variable[1]}", variable[2]))
            elif _NUMBER.fullmatch(word) or re.fullmatch(r"0x[\da-fA-F]+|[\d,-]+", word):
                options.append((wrapper, word))
            else:
                return _with(_parsed(rest, depth + 1), options) if rest else None
        elif name in {"-m", "--module"} and then:
            return _with(_plain(words[at + 1 :], module=True), options)
        elif equals:
            options.append((f"{wrapper} {name}", value))
        elif not then or then.startswith("-") or _starts(then) or name.startswith("--no"):
            options.append((f"{wrapper} {name}", GIVEN))
        else:
            options.append((f"{wrapper} {name}", then))
            at += 1
        at += 1
    return None


def _starts(word: str) -> bool:
    """Whether a word behind an option is what is run, rather than the option's value."""
    name = PurePosixPath(word).name
    known = name in _WRAPPERS or name in _SHELLS or _PYTHON.fullmatch(name) is not None
    return known or word.endswith(_SUFFIXES)


def _inline(words: list[str], depth: int) -> Command | None:
    """The scripts that a shell's text runs; else the text is a script of its own."""
    if not words:
        return None
    scripts: list[Command] = []
    others: list[str] = []
    for segment in _segments(_REDIRECTED.sub(" ", words[0][:TEXT_MAX])):
        bare = segment
        while bare and bare[0] in _KEYWORDS:
            others.append(bare[0])
            bare = bare[1:]
        found = _parsed(bare, depth + 1)
        if found.file or found.module:
            scripts.append(found)
        else:
            others += segment[len(segment) - len(bare) :]
    if not scripts:
        return _text("sh -c", words, words[1:])
    names = list(dict.fromkeys(found.name for found in scripts))
    arguments = [
        (name if len(names) == 1 else f"{found.name} {name}", value)
        for found in scripts
        for name, value in found.arguments
    ]
    around = " ".join(others).strip(f" {_BETWEEN}")
    if around:
        arguments.append(("shell", without_numbers(around)))
        arguments += _numbers(around, "shell ")
    whole = "+".join(dict.fromkeys(found.script for found in scripts))
    first = scripts[0]
    return Command(whole, "+".join(names)[:80], tuple(arguments), first.file, first.module)


def _segments(text: str) -> Iterator[list[str]]:
    """The simple commands of a shell's text; what stands between them is a segment as well."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_BETWEEN)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError:  # A quote that is not closed.
        words = text.split()
    segment: list[str] = []
    for word in words:
        if word and all(mark in _BETWEEN for mark in word):
            if segment:
                yield segment
            yield [word]
            segment = []
        else:
            segment.append(word)
    if segment:
        yield segment


def _text(name: str, words: Sequence[str], rest: Sequence[str]) -> Command | None:
    """A text that is run is a script of its own, whatever numbers are in it."""
    if not words:
        return None
    text = words[0]
    arguments = (*_numbers(text, ""), *((f"{name} {at}", value) for at, value in enumerate(rest)))
    shown = " ".join(text.split())
    return Command(f"{name} {digest([without_numbers(text)])}", f"{name} {shown}"[:80], arguments)


def _numbers(text: str, prefix: str) -> list[tuple[str, str]]:
    found = _NUMBER.findall(text)
    return [(f"{prefix}#{place}", value) for place, value in enumerate(found, 1)]


def _given(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options, named values and the places of plain words."""
    place = at = 0
    while at < len(words):
        word, then = words[at], words[at + 1] if at + 1 < len(words) else "-"
        if word.startswith("-") and word != "-" and number(word) is None:
            name, equals, value = word.partition("=")
            if not equals and (not then.startswith("-") or number(then) is not None):
                value, at = then, at + 1
            elif not equals:
                value = GIVEN
            yield name.replace("_", "-"), value
        elif named := _NAMED.fullmatch(word):
            yield named[1].replace("_", "-"), named[2]
        else:
            place += 1
            yield f"#{place}", word
        at += 1


def _with(command: Command, more: Iterable[tuple[str, str]]) -> Command:
    return command._replace(arguments=(*more, *command.arguments))


def _kept(arguments: Iterable[tuple[str, str]]) -> Arguments:
    """By name, each once, and values that are not too long."""
    found: dict[str, str] = {}
    for name, value in arguments:
        again, count = name, 1
        while again in found:
            count += 1
            again = f"{name} ({count})"
        found[again] = (
            value if len(value) <= VALUE_MAX else f"{value[:12]}...{digest([value])[:12]}"
        )
        if len(found) == ARGUMENTS_MAX:
            break
    return tuple(sorted(found.items()))


def digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:24]
