"""Where the server is and which token to show, from what is given, the environment and files."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from treadle.client.contexts import ServerContext, chosen, read_contexts
from treadle.core.errors import InvalidInputError
from treadle.wire.fingerprint import read_fingerprint

SHARED_SOCKET = Path("/run/treadle/treadle.sock")
TOKEN_BYTES_MAX = 4096


class Address(NamedTuple):
    """A Unix socket's path or a URL; the other is empty."""

    socket: str
    url: str
    fingerprint: str = ""  # the server's key; empty: its certificate is checked as usual

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else self.url

    @property
    def base_url(self) -> str:
        return "http://treadle" if self.socket else self.url


def find_address(given: str | None = None, env: Mapping[str, str] = os.environ) -> Address:
    """The address given, else TREADLE_URL, else that of the last login, else the socket where
    `treadle up` listens by default.

    A server that was logged in to is trusted by the key that it had then; TREADLE_FINGERPRINT
    names the key of another.
    """
    text = given or env.get("TREADLE_URL", "")
    context = None if text else chosen(env)
    if context is not None:
        text = context.url
    if not text:
        return Address(str(default_socket(env)), "")
    found = read_address(text)
    if not found.url.startswith("https:"):
        return found
    if env.get("TREADLE_FINGERPRINT"):
        return found._replace(fingerprint=read_fingerprint(env["TREADLE_FINGERPRINT"]))
    known = read_contexts(env).of_url(found.url) if context is None else context
    return found._replace(fingerprint=known.fingerprint) if known is not None else found


def read_address(text: str) -> Address:
    kind, _, path = text.partition(":")
    if kind == "unix" and path.startswith("/") and "\0" not in path:
        return Address(path, "")
    parts = urlsplit(text)
    plain = not parts.path.strip("/") and not parts.query and not parts.username
    if parts.scheme in {"http", "https"} and parts.hostname and plain:
        return Address("", f"{parts.scheme}://{parts.netloc}")
    raise InvalidInputError(
        f"the address {text!r} should be unix:/path/to/socket or https://host:port"
    )


def default_socket(env: Mapping[str, str] = os.environ) -> Path:
    """Where the server of this machine or of this user listens."""
    if env.get("TREADLE_SOCKET"):
        return Path(env["TREADLE_SOCKET"])
    if SHARED_SOCKET.exists():
        return SHARED_SOCKET
    home = env.get("XDG_RUNTIME_DIR") or env.get("XDG_STATE_HOME")
    folder = Path(home) if home else Path.home() / ".local" / "state"
    return folder / "treadle" / "treadle.sock"


def find_token(
    given: str | None, address: Address, env: Mapping[str, str] = os.environ
) -> str | None:
    """The token given, else TREADLE_TOKEN, else that of the login, else that of the file `token`
    in the configuration folder.

    On a Unix socket the files are not used: the kernel says who asks, and a token that was made for
    another server would only be refused.
    """
    token = given or env.get("TREADLE_TOKEN") or None
    if token is None and (context := chosen(env)) is not None and _is_for(context, address):
        token = context.token or None
    elif token is None and address.url:
        known = read_contexts(env).of_url(address.url)
        token = (known.token or None) if known is not None else _kept_token(env)
    if token is not None and not (token.isascii() and token.isprintable()):
        raise InvalidInputError("the token has characters that no token has; copy it again")
    return token


def _is_for(context: ServerContext, address: Address) -> bool:
    """A token is sent to the server that it belongs to, and to no other."""
    return read_address(context.url)._replace(fingerprint="") == address._replace(fingerprint="")


def _kept_token(env: Mapping[str, str]) -> str | None:
    home = env.get("XDG_CONFIG_HOME")
    path = (Path(home) if home else Path.home() / ".config") / "treadle" / "token"
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(TOKEN_BYTES_MAX).strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot read the token in {path}: {error}") from None
