"""Removes what is left of copies that broke off, and with which nothing goes on.

A draft is used by the next copy of the same folder. If none comes, because the job went elsewhere
or its code has changed, it is removed a day after it got its last file.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from treadle.engines.agent.copies.incoming import Incoming

KEPT_S = 86_400.0


def sweep_draft(folder: Path) -> None:
    """Of one folder that was coming (incoming.py)."""
    draft = Incoming(folder)
    with suppress(OSError):
        if draft.newest() <= _now(folder.parent) - KEPT_S:
            draft.abandon()


def sweep_work(work: Path) -> None:
    """Of own_folders.py."""
    for path in _hidden(work):
        with suppress(OSError):
            if path.lstat().st_ctime <= _now(work) - KEPT_S:
                shutil.rmtree(path)


def _hidden(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from [path for path in folder.iterdir() if path.name.startswith(".")]


def _now(folder: Path) -> float:
    """By the clock of its file system, which may be another machine's."""
    os.utime(folder)
    return folder.stat().st_mtime
