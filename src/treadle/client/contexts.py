"""Servers that a user logged in to: `contexts.json` in the configuration folder, theirs alone.

    {"current": "lab", "contexts": {"lab": {"url": "https://lab:8443", "token": "...",
                                            "fingerprint": "SHA256:..."}}}

A token belongs to its server and is sent to no other.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.files import replace as replace_file

FILE = "contexts.json"
BYTES_MAX = 1 << 20
CONTEXTS_MAX = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ServerContext:
    url: str
    token: str = ""
    fingerprint: str = ""  # of the server's key; empty: its certificate is checked as usual


@dataclass(frozen=True, slots=True)
class Contexts:
    """What the file holds."""

    current: str = ""  # empty: this machine
    known: Mapping[str, ServerContext] = field(default_factory=dict)

    def of_url(self, url: str) -> ServerContext | None:
        return next((each for each in self.known.values() if each.url == url), None)

    def using(self, name: str, context: ServerContext) -> "Contexts":
        """With this one, to which commands go from now on."""
        if not _NAME.fullmatch(name):
            raise InvalidInputError(f"--name is up to 64 letters, digits and _.@-, not {name!r}")
        if len(self.known) >= CONTEXTS_MAX and name not in self.known:
            raise InvalidInputError(f"there are {CONTEXTS_MAX} logins already; log out of some")
        return Contexts(name, {**self.known, name: context})

    def removing(self, name: str) -> "Contexts":
        left = {other: context for other, context in self.known.items() if other != name}
        return Contexts("" if self.current == name else self.current, left)


def contexts_file(env: Mapping[str, str] = os.environ) -> Path:
    home = env.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "treadle" / FILE


def read_contexts(env: Mapping[str, str] = os.environ) -> Contexts:
    """What is saved; nothing if there is no file. A file that others can read is refused."""
    path = contexts_file(env)
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            content = file.read(BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror}") from None
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise InvalidInputError(
            f"{path} has tokens in it and can be read by others; it must be yours, with mode 600"
        )
    try:
        saved = json.loads(content)
        known = {
            str(name): ServerContext(
                str(each["url"]), str(each.get("token", "")), str(each.get("fingerprint", ""))
            )
            for name, each in saved["contexts"].items()
        }
        current = str(saved.get("current") or "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidInputError(f"{path} is damaged; correct it or remove it") from None
    return Contexts(current if current in known else "", known)


def write_contexts(contexts: Contexts, env: Mapping[str, str] = os.environ) -> None:
    path = contexts_file(env)
    saved = {
        "current": contexts.current,
        "contexts": {
            name: {key: value for key, value in asdict(context).items() if value}
            for name, context in contexts.known.items()
        },
    }
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, (json.dumps(saved, indent=1) + "\n").encode(), mode=0o600, sync=True)
    except OSError as error:
        raise InvalidInputError(f"cannot write {path}: {error.strerror}") from None


def chosen(env: Mapping[str, str] = os.environ) -> ServerContext | None:
    """The server of the last login; None for this machine.

    TREADLE_URL and TREADLE_SOCKET name a server themselves, and come first.
    """
    if env.get("TREADLE_URL") or env.get("TREADLE_SOCKET"):
        return None
    found = read_contexts(env)
    return found.known[found.current] if found.current else None
