"""Paths in a job's command and variables, on a node where the job has a copy of its folder."""

import os.path
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

_SCRIPTS = (".py", ".sh", ".bash")
_INTERPRETERS = ("python", "bash", "sh", "dash", "zsh", "perl", "ruby", "node")
# What may stand before and behind a path within a word: `--data=/a`, `/a:/b`, `sh -c 'cd /a'`.
_BEFORE, _BEHIND = r"(?<![^\s=:,;'\"(<>|&`])", r"(?![^/\s:,;'\")<>|&`])"


def led_to(text: str, folder: str, own: str) -> str:
    """The text, with paths in a folder led to a copy of it."""
    path = folder.rstrip("/")
    if not path:
        return text
    return re.sub(f"{_BEFORE}{re.escape(path)}{_BEHIND}", lambda _: own, text)


def files_run(command: Sequence[str], folder: str) -> tuple[str, ...]:
    """Absolute paths of the files that a command runs: its program, and the script behind that.

    Arguments are left out: what is not there yet may be written by the job.
    """
    program, behind = command[0], command[1:]
    found = [program] if "/" in program else []
    name = re.sub(r"[0-9.]*$", "", PurePosixPath(program).name)
    script = _first(behind) if name in _INTERPRETERS else _behind_options(behind)
    if script:
        found.append(script)
    return tuple(os.path.normpath(os.path.join(folder, word)) for word in found)  # noqa: PTH118


def _first(words: Sequence[str]) -> str:
    """The script of an interpreter, behind its flags; empty: it runs a module or a text."""
    for word in words:
        if word in ("-m", "-c"):
            return ""
        if word[:1] != "-":
            return word
    return ""


def _behind_options(words: Sequence[str]) -> str:
    """The script that a launcher is given, which is not the value of an option."""
    pairs = zip(("", *words), words, strict=False)
    return next((word for before, word in pairs if _is_script(word) and before[:1] != "-"), "")


def _is_script(word: str) -> bool:
    return word.endswith(_SCRIPTS) and word[:1] != "-" and not re.search(r"\s", word)
