"""The state of a run in a folder, for members that have or will have only parts of it.

The folder is in memory if there is room, else beside the checkpoints. It holds the parts of model
and optimizer as torch.distributed.checkpoint writes them, and a small document with the rest. The
supervisor of the attempt makes `TREADLE_MEMORY_DIR` and removes it with what is left there.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from treadle.train.checkpoint import is_url, place
from treadle.train.group import BrokenGroupError, Group
from treadle.train.planned import Planned
from treadle.train.state import share_text

CARRIED = ".carried-"  # so begin the names of its folders
DOCUMENT = "document"
SPARE = 0.5  # of the memory that is free: more goes to a disk


def choose(name: str, bytes_needed: int) -> Path:
    """A folder for that much: in memory if it fits, else on a disk."""
    memory = os.environ.get("TREADLE_MEMORY_DIR")
    if memory is not None:
        try:
            if bytes_needed < SPARE * shutil.disk_usage(memory).free:
                return Path(memory) / f"{CARRIED}{name}"
        except OSError:
            pass
    if (folder := _own_folder()) is not None:
        return folder / f"{CARRIED}{name}"
    return Path(tempfile.mkdtemp(prefix=CARRIED))  # alone or under torchrun, on one machine


def _own_folder() -> Path | None:
    """Where the job keeps its checkpoints, if it was told where, and that is a disk."""
    named = "TREADLE_CHECKPOINT_DIR" in os.environ
    return Path(place()) if named and not is_url(place()) else None


def write(name: str, planned: Planned, rest: dict[str, Any], group: Group) -> str:
    """Save the state; the folder, or "" if another rank does it.

    All ranks call it. If the model is split each writes its part, else the first writes all.
    OSError: it could not be written, on any rank, and nothing is left of it. BrokenGroupError: a
    rank is lost.
    """
    if not planned.split:
        return write_alone(name, planned, rest) if group.rank == 0 else ""
    needed = torch.tensor([float(planned.bytes)], device=group.device)
    try:
        if group.size > 1:
            dist.all_reduce(needed)
        text = _begin(name, int(needed.item()), rest) if group.rank == 0 else ""
        # Also a failure of the first rank: the others would wait for its part.
        folder, _, problem = share_text(text, group).partition("\n")
    except RuntimeError as error:
        raise BrokenGroupError(str(error)) from None
    if problem:
        raise OSError(problem)
    try:
        planned.save(Path(folder))
    except OSError:
        if group.rank == 0:
            remove(Path(folder))
        raise
    return folder


def write_alone(name: str, planned: Planned, rest: dict[str, Any]) -> str:
    """Save the state of a rank that has all of it."""
    folder = choose(name, planned.bytes)
    try:
        _put(folder, rest)
        planned.save(folder)
    except OSError:
        remove(folder)
        raise
    return str(folder)


def _begin(name: str, bytes_needed: int, rest: dict[str, Any]) -> str:
    """Make the folder with the document; its path or, after a newline, why that failed."""
    folder: Path | None = None
    try:
        folder = choose(name, bytes_needed)
        _put(folder, rest)
    except OSError as error:
        if folder is not None:
            remove(folder)
        return f"\n{error or type(error).__name__}"
    return str(folder)


def read_document(folder: Path) -> dict[str, Any]:
    # The folder is the job's own: what lies there may be trusted as its script is.
    path = folder / DOCUMENT
    document: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=False)
    return document


def remove(folder: Path) -> None:
    """After all have read it; a checkpoint stays."""
    if folder.name.startswith(CARRIED):
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Before the first group of a run: remove what members that were killed have left.

    The process that wrote a folder holds a lock on it as long as it lives.
    """
    places = [Path(os.environ["TREADLE_MEMORY_DIR"])] if "TREADLE_MEMORY_DIR" in os.environ else []
    places.append(_own_folder() or Path(tempfile.gettempdir()))
    for folder in [each for above in places for each in above.glob(f"{CARRIED}*")]:
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
            finally:
                os.close(lock)


_LOCKS: dict[Path, int] = {}  # of the folders that this process wrote


def _lock(made: Path, folder: Path) -> None:
    """Until this process ends, or the folder, as it will be called, is no more."""
    for other in [each for each in _LOCKS if each == folder or not each.exists()]:
        os.close(_LOCKS.pop(other))
    lock = os.open(made, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    _LOCKS[folder] = lock


def _put(folder: Path, rest: dict[str, Any]) -> None:
    """The folder is the user's alone, and locked before others can know it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".new-carried-", dir=folder.parent))
    _lock(made, folder)
    made.rename(folder)
    try:
        torch.save(rest, folder / DOCUMENT)
    except RuntimeError as error:  # torch's writer hides the system's own error.
        raise OSError(f"torch could not write it: {error}") from error
