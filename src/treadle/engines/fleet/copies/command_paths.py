"""Paths in a job's command and variables, on a node where the job has a copy of its folder."""

import os.path
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

_SCRIPTS = (".py", ".sh", ".bash")
_INTERPRETERS = ("python", "bash", "sh", "dash", "zsh", "perl", "ruby", "node")
# What may stand before and behind a path within a word: `--data=/a`, `/a:/b`, `sh -c 'cd /a'`.
_BEFORE, _BEHIND = r"(?<![^\s=:,;'\"(])", r"(?![^/\s:,;'\")])"


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
    script = next((word for word in behind if _is_script(word)), "")
    name = PurePosixPath(program).name
    if not script and behind and name.startswith(_INTERPRETERS) and behind[0][:1] != "-":
        script = behind[0]
    if script:
        found.append(script)
    return tuple(os.path.normpath(os.path.join(folder, word)) for word in found)  # noqa: PTH118


def _is_script(word: str) -> bool:
    return word.endswith(_SCRIPTS) and word[:1] != "-" and not re.search(r"\s", word)
