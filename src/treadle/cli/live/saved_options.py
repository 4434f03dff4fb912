"""The options of the last `treadle up`, kept in the state folder for whoever starts the daemon
next.

A daemon that is started by itself with another number of devices, or another store, would not be
the one that was there before. The store's address may hold a password: the file is its owner's
alone.
"""

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.core.errors import InvalidInputError
from treadle.files import replace

FILE = "up.json"
BYTES_MAX = 1 << 16


class Remembered(NamedTuple):
    words: tuple[str, ...] = ()
    store: str = ""


def remember(folder: Path, words: Sequence[str], store: str) -> None:
    """Replace what was kept, at once or not at all."""
    content = json.dumps({"words": list(words), "store": store}, indent=1) + "\n"
    replace(folder / FILE, content.encode(), mode=0o600, sync=True)


def recall(folder: Path) -> Remembered:
    """What was kept; nothing where there is no file, or where somebody else wrote it."""
    path = folder / FILE
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return Remembered()
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return Remembered()
        content = file.read(BYTES_MAX)
    try:
        kept = json.loads(content)
        words, store = kept["words"], kept["store"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _unusable(path, "it is not what treadle up wrote") from None
    if not isinstance(store, str) or not isinstance(words, list):
        raise _unusable(path, "it is not what treadle up wrote")
    if not all(isinstance(word, str) and "\0" not in word for word in [*words, store]):
        raise _unusable(path, "it is not what treadle up wrote")
    return Remembered(tuple(words), store)


def _unusable(path: Path, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"the options of the last treadle up cannot be read from {path} ({reason}); "
        "remove the file, or start it with treadle up and its options"
    )
