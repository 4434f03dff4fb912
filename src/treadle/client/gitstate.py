"""The state of the code at submission: commit, branch, changes, and the files of the command.

git is asked as `treadle/repository.py` says: it runs nothing that a repository could name.
"""

import hashlib
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from treadle.repository import DIFF_BYTES_MAX, TIME_LIMIT_S
from treadle.repository import git_state as state_of
from treadle.wire.jobs import Code

FILES_MAX = 16
FILE_BYTES_MAX = 4 << 20  # what is larger is data, or a program of the system
_SHELLS = ("bash", "sh", "zsh", "dash")


def git_state(
    folder: str | Path, *, diff_bytes_max: int = DIFF_BYTES_MAX, time_limit_s: float = TIME_LIMIT_S
) -> Code | None:
    """The state of the repository that holds the folder; None outside git."""
    found = state_of(folder, diff_bytes_max=diff_bytes_max, time_limit_s=time_limit_s)
    if found is None:
        return None
    return Code(
        commit=found.commit,
        branch=found.branch,
        dirty=bool(found.diff),
        diff=found.diff or "",
        cut=found.cut or found.diff is None,
    )


def code_state(folder: str | Path, command: Sequence[str], *, git: bool = True) -> Code | None:
    """The state of the code that a command runs; None if there is nothing to record."""
    code = (git_state(folder) if git else None) or Code()
    files = script_files(folder, command)
    if not code.commit and not files:
        return None
    return Code(
        commit=code.commit,
        branch=code.branch,
        dirty=code.dirty,
        diff=code.diff,
        cut=code.cut,
        files=files,
    )


def script_files(folder: str | Path, command: Sequence[str]) -> dict[str, str]:
    """SHA-256 of the files that a command names, by their absolute paths: scripts and settings."""
    found: dict[str, str] = {}
    for word in _words(command):
        path = os.path.abspath(os.path.join(folder, word))  # noqa: PTH100, PTH118  (`..` is resolved)
        if len(found) < FILES_MAX and path not in found and (digest := _digest(path)):
            found[path] = digest
    return found


def _words(command: Sequence[str]) -> Iterator[str]:
    """Words that may name a file: arguments, values of options, and words of a shell's line."""
    words = list(command)
    if len(words) >= 3 and Path(words[0]).name in _SHELLS and words[1].startswith("-"):
        try:
            words[2:3] = shlex.split(words[2])
        except ValueError:
            del words[2]
    for place, word in enumerate(words):
        if place == 0 and "/" not in word:
            continue  # found by PATH
        name = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        if name and not name.startswith("-") and "\0" not in name and "\n" not in name:
            yield name


def _digest(path: str) -> str:
    """Empty if it is no file to compare later."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return ""
    try:
        known = os.fstat(descriptor)
        if not stat.S_ISREG(known.st_mode) or known.st_size > FILE_BYTES_MAX:
            return ""  # a folder, a device, or data
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return hashlib.sha256(file.read(FILE_BYTES_MAX + 1)).hexdigest()
    except OSError:
        return ""
    finally:
        os.close(descriptor)
