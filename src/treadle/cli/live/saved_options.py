"""The options of the last `treadle up`, saved in the state folder for the next start.

A daemon that `treadle submit` starts must have the same devices and the same store as the one
before. The store's address may contain a password, so only the owner may read the file.
"""

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from treadle.core.errors import InvalidInputError
from treadle.files import replace

FILE = "up.json"
BYTES_MAX = 1 << 16


_Word = Annotated[str, msgspec.Meta(pattern=r"^[^\0]*$")]


class Remembered(msgspec.Struct, frozen=True):
    words: tuple[_Word, ...]
    store: _Word


def remember(folder: Path, words: Sequence[str], store: str) -> None:
    """Save the options, completely or not at all."""
    content = json.dumps({"words": list(words), "store": store}, indent=1) + "\n"
    replace(folder / FILE, content.encode(), mode=0o600, sync=True)


def recall(folder: Path) -> Remembered:
    """The saved options; none if there is no file, or if another user wrote it."""
    path = folder / FILE
    try:
        content = _own_content(path)
        if content is None:
            return Remembered((), "")
        return msgspec.json.decode(content, type=Remembered)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    except msgspec.MsgspecError:
        raise _unusable(path, "it is damaged") from None


def _own_content(path: Path) -> bytes | None:
    """What this user has written there; None if there is no file, or another user's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        return file.read(BYTES_MAX)


def _unusable(path: Path, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"cannot read the options of the last treadle up from {path} ({reason}); "
        "remove the file, or run treadle up with options"
    )
