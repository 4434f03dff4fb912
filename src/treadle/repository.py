"""What git and the file system say of a folder, without running anything that is in it.

git runs nothing that a repository could name: no hooks, no pager, no external diff, no text
conversion, no file-system monitor, no filter, no fetch of missing objects. The changes are found
without the repository's configuration at all: git is given another, empty git folder, with the
objects and the index of the repository. A folder outside git, a git that is not installed or one
that takes too long gives no answer.
"""

import contextlib
import os
import pwd
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

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
# Settings that say how files are compared and name no program; the rest is left out.
_HARMLESS = r"^(core\.(filemode|symlinks|ignorecase|autocrlf|eol)|extensions\.objectformat)$"


class User(NamedTuple):
    """Whom to ask as; only root can ask as others."""

    uid: int
    gid: int


class GitState(NamedTuple):
    commit: str
    branch: str
    diff: str | None  # of tracked files against the commit; None: git failed or took too long
    cut: bool  # the diff is longer


class _Answer(NamedTuple):
    text: str
    cut: bool


class _Limits(NamedTuple):
    bytes_max: int
    time_s: float


def git_state(
    folder: str | Path,
    *,
    diff_bytes_max: int = DIFF_BYTES_MAX,
    time_limit_s: float = TIME_LIMIT_S,
) -> GitState | None:
    """The state of the repository that holds the folder; None outside git."""
    limits = _Limits(diff_bytes_max, time_limit_s)
    commit = _git(folder, ("rev-parse", "--verify", "--quiet", "HEAD"), limits)
    if commit is None or not commit.text.strip():
        return None
    branch = _git(folder, ("symbolic-ref", "--short", "--quiet", "HEAD"), limits)
    try:
        diff = _diff(folder, commit.text.strip(), limits)
    except OSError:  # There is no room for an empty git folder.
        diff = None
    return GitState(
        commit.text.strip(),
        branch.text.strip() if branch else "",
        None if diff is None else diff.text,
        cut=diff is not None and diff.cut,
    )


def _diff(folder: str | Path, commit: str, limits: _Limits) -> _Answer | None:
    """The changes to tracked files since the commit."""
    paths = ("--show-toplevel", "--git-dir", "--git-path", "index", "--git-path", "objects")
    found = _git(folder, ("rev-parse", "--path-format=absolute", *paths), limits)
    lines = found.text.splitlines() if found else []
    if len(lines) != 4:  # A bare repository, or a path with a line break.
        return None
    top, git_dir, index, objects = lines
    settings = _git(folder, ("config", "--get-regexp", _HARMLESS), limits)
    with _empty_git_dir(Path(git_dir), settings.text if settings else "") as empty:
        instead = {
            "GIT_DIR": str(empty),
            "GIT_WORK_TREE": top,
            "GIT_INDEX_FILE": index,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        return _git(top, (*_DIFF, commit, "--"), limits, env=instead)


@contextlib.contextmanager
def _empty_git_dir(git_dir: Path, settings: str) -> Iterator[Path]:
    """A git folder that holds nothing but harmless settings."""
    with tempfile.TemporaryDirectory(prefix="treadle-git-") as name:
        empty = Path(name)
        (empty / "refs").mkdir()
        (empty / "HEAD").write_text("ref: refs/heads/none\n")
        sections = ["[core]\n\trepositoryformatversion = 1\n"]
        for line in settings.splitlines():
            key, _, value = line.partition(" ")
            section, _, setting = key.partition(".")
            if value.isalnum():
                sections.append(f"[{section}]\n\t{setting} = {value}\n")
        (empty / "config").write_text("".join(sections))
        # An index may be split; its other part lies in the git folder.
        for part in git_dir.glob("sharedindex.*"):
            (empty / part.name).symlink_to(part)
        yield empty


def _git(
    folder: str | Path,
    words: tuple[str, ...],
    limits: _Limits,
    *,
    env: Mapping[str, str] | None = None,
) -> _Answer | None:
    """What git prints, at most so much of it; None if it fails, is missing or takes too long."""
    try:
        process = started(("git", "-C", str(folder), *_QUIET, *words), None, env or {})
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    late = threading.Event()

    def stop() -> None:
        late.set()
        kill(process)

    timer = threading.Timer(limits.time_s, stop)
    timer.daemon = True
    timer.start()
    with process, contextlib.ExitStack() as left:
        left.callback(timer.cancel)
        assert process.stdout is not None
        content = process.stdout.read(limits.bytes_max + 1)
        cut = len(content) > limits.bytes_max
        if cut:
            kill(process)
        code = process.wait()
    if late.is_set() or (code != 0 and not cut):
        return None
    return _Answer(content[: limits.bytes_max].decode(errors="replace"), cut)


def started(
    command: Sequence[str], user: User | None, env: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """A program that runs as that user, and whose output is read."""
    # GIT_DIR and its like would speak of another repository than the folder's.
    around = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    around |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    if user is None:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**around, **env},
            start_new_session=True,
        )
    try:
        known = pwd.getpwuid(user.uid)
        groups = os.getgrouplist(known.pw_name, user.gid)
    except KeyError:
        raise ValueError(f"uid {user.uid} has no entry") from None
    # The daemon's own environment is not the user's.
    around = {name: around[name] for name in ("PATH", "LC_ALL") if name in around}
    around |= {"HOME": known.pw_dir, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**around, **env},
        start_new_session=True,
        user=user.uid,
        group=user.gid,
        extra_groups=groups,
    )


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End the program and whatever it started, which would keep the pipe open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
