"""Options that a script carries: `#TREADLE` lines, and the `#SBATCH` lines that have a meaning
here.

Only the leading block counts, comments and empty lines before the first line of code, so that a
document in a string further down changes nothing. `#TREADLE` lines hold the command line's own
options and are read by it; `#SBATCH` lines are read here as far as they go, and what is left out
is said.
"""

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from treadle.client.jobfile import Draft
from treadle.core.errors import InvalidInputError
from treadle.wire import notation as values
from treadle.wire.notation import shown

NOTES_MAX = 20


@dataclass(frozen=True, slots=True)
class Line:
    """One directive: the file and line to name in errors, and its words."""

    where: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """A script's own options and how to run it."""

    command: tuple[str, ...]
    treadle: tuple[Line, ...]
    slurm: Draft
    for_slurm: bool  # it has #SBATCH lines, so it expects SLURM_* variables


def read_script(path: str, text: str) -> Script:
    """What the leading comments say, and the command that runs the file."""
    treadle: list[Line] = []
    slurm = Draft()
    for_slurm = False
    name = Path(path).name
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        found = re.match(r"#(TREADLE|SBATCH)\s+(.*)", line)
        if not found:
            continue
        where = f"{name} line {number}"
        words = _words(found[2], where)
        if found[1] == "TREADLE":
            treadle.append(Line(where, words))
        else:
            for_slurm = True
            _slurm(slurm, words, where)
    if len(slurm.notes) > NOTES_MAX:
        more = len(slurm.notes) - NOTES_MAX
        slurm.notes[NOTES_MAX:] = [f"{name}: {more} more #SBATCH options are ignored"]
    return Script(_command(path, text), tuple(treadle), slurm, for_slurm)


def _words(text: str, where: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text, comments=True))
    except ValueError as error:
        problem = str(error).lower().rstrip(".")
        raise InvalidInputError(f"{where}: cannot parse the options: {problem}") from None


def _command(path: str, text: str) -> tuple[str, ...]:
    """An executable file runs itself; others run by their first line, or in bash."""
    absolute = str(Path(path).absolute())
    if os.access(absolute, os.X_OK) and (text.startswith("#!") or "\0" in text):
        return (absolute,)  # a script that says what runs it, or a program
    first = text.split("\n", 1)[0].rstrip("\r")
    interpreter = first.removeprefix("#!").split(None, 1) if first.startswith("#!") else []
    if interpreter:
        return (*(word.strip() for word in interpreter), absolute)
    if path.endswith(".py"):
        return ("python3", absolute)
    return ("/bin/bash", absolute)


# -- Slurm ---------------------------------------------------------------------------------------

_SHORT = {"J": "job-name", "G": "gpus", "t": "time", "a": "array", "d": "dependency", "D": "chdir"}
_SHORT |= {"n": "ntasks", "N": "nodes", "c": "cpus-per-task", "p": "partition", "o": "output"}
_SHORT |= {"e": "error", "A": "account", "q": "qos", "C": "constraint", "w": "nodelist"}


def _slurm(draft: Draft, words: tuple[str, ...], where: str) -> None:
    """Take the options that have a meaning here; note the others."""
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        option, value = _option(word)
        reader = _SLURM.get(option or "")
        if reader and value is None and place < len(words) and not words[place].startswith("-"):
            value = words[place]
            place += 1
        elif option and value is None and place < len(words) and words[place][:1] != "-":
            word = f"{word} {words[place]}"
            place += 1
        if option == "nice":
            draft.notes.append(f"{where}: #SBATCH {word} is ignored; use --priority")
        elif reader is None or value is None or not reader(draft, value, f"{where}: --{option}"):
            draft.notes.append(f"{where}: #SBATCH {shown(word)[1:-1]} is not supported and ignored")


def _option(word: str) -> tuple[str | None, str | None]:
    """The long name of an option and its value, as far as they stand in this word."""
    if word.startswith("--"):
        option, equals, value = word[2:].partition("=")
        return option, value if equals else None
    if word.startswith("-") and len(word) > 1:
        return _SHORT.get(word[1]), word[2:].removeprefix("=") or None
    return None, None


def _gpus(draft: Draft, value: str, where: str) -> bool:
    """`4`, `a100:4`, and for --gres `gpu`, `gpu:4`, `gpu:a100:4`."""
    if "," in value:
        return False
    number = value.rpartition(":")[2]
    if where.endswith("--gres"):
        if value.partition(":")[0] != "gpu":
            return False
        number = number if number.isascii() and number.isdigit() else "1"
    if not (number.isascii() and number.isdigit()):
        return False
    draft.fields["devices"] = values.devices(number, where)
    return True


def read_dependency(draft: Draft, value: str, where: str) -> bool:
    """`afterok:12:13,afterany:14`; all must hold."""
    found: dict[str, list[str]] = {"after": [], "after_any": []}
    for part in value.split(","):
        kind, _, jobs = part.partition(":")
        target = {"afterok": "after", "afterany": "after_any"}.get(kind)
        if target is None or not jobs:
            return False
        found[target] += values.identities(jobs, where)
    draft.fields.update({target: tuple(jobs) for target, jobs in found.items() if jobs})
    return True


def _time(draft: Draft, value: str, where: str) -> bool:
    draft.fields["time_limit_s"] = values.slurm_duration(value, where)
    return True


def _memory(draft: Draft, value: str, where: str) -> bool:
    draft.fields["memory_gib"] = values.slurm_memory(value, where)
    return True


def _cpus(draft: Draft, value: str, where: str) -> bool:
    """Of each task; here a job is one task, however many processes it has."""
    draft.fields["cpus"] = values.cpus(value, where)
    return True


def _array(draft: Draft, value: str, where: str) -> bool:
    draft.fields["array"] = values.array_text(value, where)
    return True


def _kept(target: str) -> Callable[[Draft, str, str], bool]:
    def read(draft: Draft, value: str, where: str) -> bool:  # noqa: ARG001
        draft.fields[target] = value
        return True

    return read


_SLURM: dict[str, Callable[[Draft, str, str], bool]] = {
    "job-name": _kept("name"),
    "gres": _gpus,
    "gpus": _gpus,
    "gpus-per-node": _gpus,
    "time": _time,
    "mem": _memory,
    "cpus-per-task": _cpus,
    "array": _array,
    "dependency": read_dependency,
    "chdir": _kept("workdir"),
}
