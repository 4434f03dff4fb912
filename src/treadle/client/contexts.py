"""Servers that this user has logged in to: address, token and the pinned key of each.

They are kept in contexts.json in the configuration folder, readable by the user alone.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from treadle.core.errors import InvalidInputError
from treadle.files import replace

FILE_BYTES_MAX = 1 << 20


class ServerContext(msgspec.Struct, frozen=True, omit_defaults=True):
    """One server."""

    url: str
    token: str = ""
    fingerprint: str = ""  # of its key; empty: its certificate is checked as usual


class Contexts(msgspec.Struct, frozen=True):
    """All of them, by name."""

    current: str = ""  # empty: the socket of this machine
    contexts: dict[str, ServerContext] = {}

    def here(self) -> ServerContext | None:
        """The one that commands use."""
        return self.contexts.get(self.current)

    def of_url(self, url: str) -> ServerContext | None:
        return next((each for each in self.contexts.values() if each.url == url), None)


def contexts_path(env: Mapping[str, str] = os.environ) -> Path:
    home = env.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "treadle" / "contexts.json"


def read_contexts(env: Mapping[str, str] = os.environ) -> Contexts:
    """The contexts; none if there is no file. A file that others can read is refused."""
    path = contexts_path(env)
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise InvalidInputError(
                    f"{path} has tokens in it and can be read by others; it must be yours, with "
                    "mode 600"
                )
            return msgspec.json.decode(file.read(FILE_BYTES_MAX), type=Contexts)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise InvalidInputError(
            f"{path} cannot be read ({error}); remove it and log in again"
        ) from None


def write_contexts(contexts: Contexts, env: Mapping[str, str] = os.environ) -> None:
    path = contexts_path(env)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = msgspec.json.format(msgspec.json.encode(contexts), indent=1)
        replace(path, content + b"\n", mode=0o600, sync=True)
    except OSError as error:
        raise InvalidInputError(f"cannot write {path}: {error.strerror}") from None
