"""The git state of a folder at submission: commit, branch and uncommitted changes.

git runs nothing that a repository could name: no hooks, no pager, no external diff, no
text conversion, no file-system monitor. A folder outside git, a git that is not installed or one
that takes too long gives no answer, and the job is submitted without.
"""

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

from treadle.wire.jobs import Code

DIFF_BYTES_MAX = 1 << 20
TIME_LIMIT_S = 5.0
_QUIET = (
    *("-c", "core.fsmonitor="),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.pager=cat"),
    *("-c", "color.ui=false"),
    *("-c", "diff.external="),
)
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty")


class _Answer(NamedTuple):
    text: str
    cut: bool


def git_state(
    folder: str | Path, *, diff_bytes_max: int = DIFF_BYTES_MAX, time_limit_s: float = TIME_LIMIT_S
) -> Code | None:
    """The state of the repository that holds the folder; None outside git."""
    limits = (diff_bytes_max, time_limit_s)
    commit = _git(folder, ("rev-parse", "--verify", "--quiet", "HEAD"), *limits)
    if commit is None or not commit.text.strip():
        return None
    branch = _git(folder, ("symbolic-ref", "--short", "--quiet", "HEAD"), *limits)
    diff = _git(folder, (*_DIFF, "HEAD", "--"), *limits)
    return Code(
        commit=commit.text.strip(),
        branch=branch.text.strip() if branch else "",
        dirty=bool(diff and diff.text),
        diff=diff.text if diff else "",
        cut=diff.cut if diff else False,
    )


def _git(
    folder: str | Path, words: tuple[str, ...], bytes_max: int, time_limit_s: float
) -> _Answer | None:
    """What git prints, at most so much of it; None if it fails, is missing or takes too long."""
    # GIT_DIR and its like would speak of another repository than the folder's.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            ["git", "-C", str(folder), *_QUIET, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return None
    late = threading.Event()

    def stop() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(time_limit_s, stop)
    timer.start()
    with process, contextlib.ExitStack() as left:
        left.callback(timer.cancel)
        assert process.stdout is not None
        content = process.stdout.read(bytes_max + 1)
        cut = len(content) > bytes_max
        if cut:
            _kill(process)
        code = process.wait()
    if late.is_set() or (code != 0 and not cut):
        return None
    return _Answer(content[:bytes_max].decode(errors="replace"), cut)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End git and whatever it started, which would keep the pipe open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
