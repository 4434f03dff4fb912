"""Who sends a request: the token's user, the session's, else the peer of a Unix socket.

An unknown token is refused even on the Unix socket: falling back to the peer could act as a user
that the caller did not mean. An unknown cookie is as good as none, and so is one without its
X-CSRF-Token: a browser keeps sending it after the daemon has started again, and must still be able
to read the page's files and to log in.
"""

import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from treadle.control.api import LiveService
from treadle.server.limits import RequestRate
from treadle.server.peers import Peer
from treadle.server.sessions import Halves, Session, Sessions, Shown
from treadle.server.settings import ServerSettings
from treadle.wire.machine import Who
from treadle.wire.problems import NotAllowedError, NotKnownError

TOKEN_LENGTH_MAX = 200
COOKIE = "treadle_session"
COOKIES_MAX = 8
CSRF_HEADER = b"x-csrf-token"


class Callers:
    """Tells who sends each request; wrong tokens from one address are counted and limited."""

    def __init__(self, service: LiveService, settings: ServerSettings) -> None:
        self._service = service
        self._clock = settings.clock
        self.sessions = Sessions(settings.clock)
        self._wrong = RequestRate(
            per_s=settings.wrong_tokens_per_s, burst=settings.wrong_tokens_burst
        )

    def identify(
        self, headers: Mapping[bytes, bytes], state: MutableMapping[str, Any]
    ) -> Who | None:
        """The caller; None without a token, session or peer. Raises if the token is not valid.

        What they showed is kept in `state`, for a session or a link that is made from it.
        """
        given = headers.get(b"authorization")
        if given is not None:
            with self._counted(state):
                return self._by_token(_bearer(given), state)
        peer = state.get("peer")
        if isinstance(peer, Peer):
            state["shown"] = lambda: self._service.who_of_uid(peer.uid)
            return self._service.who_of_uid(peer.uid)
        found = None if state.get("unix") else self._session(headers)
        if found is None:
            return None
        session, who = found
        state["session"], state["shown"] = session, session.shown
        return who

    def log_in(self, token: str, state: Mapping[str, Any]) -> tuple[Who, Shown]:
        """The owner of a token, who wants a session."""
        shown: dict[str, Any] = dict(state)
        with self._counted(state):
            who = self._by_token(token, shown)
        if who.job:
            raise NotAllowedError(f"the token of job {who.job} may only report its progress")
        return who, shown["shown"]

    def log_in_by_link(self, code: str, state: Mapping[str, Any]) -> tuple[Who, Shown]:
        """The user who made a link; a wrong code counts as a wrong token."""
        with self._counted(state):
            return self.sessions.use_link(code)

    def _session(self, headers: Mapping[bytes, bytes]) -> tuple[Session, Who] | None:
        csrf = headers.get(CSRF_HEADER)
        if csrf is None:
            return None
        name = cookie_name(headers.get(b"host", b"").decode("latin-1"))
        for cookie in _cookies(headers.get(b"cookie", b""), name):
            found = self.sessions.find(Halves(cookie, csrf.decode("latin-1")))
            if found is not None:
                return found
        return None

    def _by_token(self, token: str, state: MutableMapping[str, Any]) -> Who:
        address = "socket" if state.get("unix") else str(state.get("address") or "")
        who = None
        # A token is printable; anything else cannot be one, and need not be looked up.
        if len(token) <= TOKEN_LENGTH_MAX and token.isascii() and token.isprintable():
            who = self._service.who_of_token(token, address)
        if who is None:
            raise NotKnownError(
                "the token is unknown, expired or revoked",
                hint="`treadle token make NAME` makes a new one on the server's machine",
            )
        state["shown"] = self._service.looking_up(token, address)
        return who

    @contextmanager
    def _counted(self, state: Mapping[str, Any]) -> Iterator[None]:
        """Count what was wrong for its address; more than a few are refused as too fast."""
        try:
            yield
        except NotKnownError:
            address = f"wrong tokens from {state.get('network', 'one address')}"
            self._wrong.take(address, self._clock.now())
            raise


def check_group(group: int | None, state: Mapping[str, object]) -> None:
    """Refuse a peer of the Unix socket outside the group that the socket is for.

    The socket's mode keeps them out too, as long as it is not changed behind our back.
    """
    if group is None or not state.get("unix"):
        return
    peer = state.get("peer")
    if isinstance(peer, Peer) and (
        peer.uid in (0, os.geteuid()) or group in (peer.gid, *peer.groups)
    ):
        return
    raise NotAllowedError("this socket is only for members of the group that it is shared with")


def _bearer(given: bytes) -> str:
    scheme, _, token = given.partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        raise NotKnownError(
            "the Authorization header should be 'Bearer treadle_...'",
            hint="send the token as `treadle token` printed it",
        )
    return token.decode("latin-1")


def cookie_name(host: str) -> str:
    """The name of our cookie for a browser that knows us by that Host.

    Browsers send cookies to all ports of a host: with the port in its name, that of one daemon does
    not take the place of another's.
    """
    port = host.rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() else COOKIE


def _cookies(given: bytes, name: str) -> list[str]:
    """The values of the cookies of that name, ours among them.

    Others on the host can set more of them, for longer paths; a browser sends those first.
    """
    pairs = (part.strip().partition(b"=") for part in given.split(b";"))
    found = [value.decode("latin-1") for key, _, value in pairs if key == name.encode()]
    return found[: -COOKIES_MAX - 1 : -1]
