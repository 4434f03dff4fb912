"""Sessions of browsers and the links that begin them, in memory and limited in number and time.

A session is as good as what it was begun with: the token is looked up again at every request, and
a user of the machine is named anew. So a session ends when its token is revoked or expires, and
its role is never above that of its user.

A browser sends its cookies to every port of a host, those of other users' servers too. So a cookie
is half of what shows a session: the other half, which the page keeps for its own port alone, comes
in a header. Only a digest of both is kept, and of codes and tokens. A daemon that starts again
knows no session; its users log in again.
"""

import hashlib
import secrets
from collections.abc import Callable
from typing import NamedTuple

from treadle.control.loop import wall
from treadle.core.ports import Clock
from treadle.wire.machine import Who
from treadle.wire.problems import NotKnownError, TooManyError

SESSION_S_MAX = 12 * 3600.0
LINK_S_MAX = 60.0
SESSIONS_MAX = 2000
SESSIONS_PER_USER_MAX = 50  # the oldest makes room
LINKS_MAX = 1000
LINKS_PER_USER_MAX = 10

Shown = Callable[[], Who | None]  # looks up what the caller showed; None once it is void


class Session(NamedTuple):
    """A browser that logged in."""

    key: str  # the digest of its two halves
    account: str
    shown: Shown
    until: float  # on the server's clock
    expires_at: float  # seconds since 1970


class Halves(NamedTuple):
    """What shows a session, given out once."""

    cookie: str
    csrf: str


class _Link(NamedTuple):
    account: str
    shown: Shown
    until: float


class Sessions:
    """The sessions of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}  # by their keys, oldest first
        self._links: dict[str, _Link] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, who: Who, shown: Shown) -> tuple[Halves, Session]:
        """A new session and what shows it; that is never what was sent to us."""
        self._forget_old()
        own = [each.key for each in self._sessions.values() if each.account == who.account]
        for key in own[: max(0, len(own) - SESSIONS_PER_USER_MAX + 1)]:
            del self._sessions[key]
        if len(self._sessions) >= SESSIONS_MAX:
            raise TooManyError(f"{SESSIONS_MAX} sessions are open", hint="try again later")
        left_s = SESSION_S_MAX
        if who.expires_at is not None:
            left_s = min(left_s, who.expires_at - wall())
        halves = Halves(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        made = Session(
            key=_digest(*halves),
            account=who.account,
            shown=shown,
            until=self._clock.now() + left_s,
            expires_at=wall() + left_s,
        )
        self._sessions[made.key] = made
        return halves, made

    def find(self, halves: Halves) -> tuple[Session, Who] | None:
        """The session that they show together and its user, if both still are."""
        found = self._sessions.get(_digest(*halves))
        if found is None:
            return None
        who = found.shown() if self._clock.now() < found.until else None
        if who is None or who.account != found.account:
            self.end(found)
            return None
        return found, who

    def is_open(self, session: Session) -> bool:
        """Whether it still is; an open stream asks now and then."""
        who = session.shown() if self._clock.now() < session.until else None
        return session.key in self._sessions and who is not None

    def end(self, session: Session) -> None:
        self._sessions.pop(session.key, None)

    def make_link(self, who: Who, shown: Shown) -> tuple[str, float]:
        """A code that begins one session of this user, and when it expires."""
        self._forget_old()
        own = [key for key, each in self._links.items() if each.account == who.account]
        for key in own[: max(0, len(own) - LINKS_PER_USER_MAX + 1)]:
            del self._links[key]
        if len(self._links) >= LINKS_MAX:
            raise TooManyError(f"{LINKS_MAX} links wait to be used", hint="try again in a minute")
        code = secrets.token_urlsafe(32)
        self._links[_digest(code)] = _Link(who.account, shown, self._clock.now() + LINK_S_MAX)
        return code, wall() + LINK_S_MAX

    def use_link(self, code: str) -> tuple[Who, Shown]:
        """Whom the link is of; it is used up, whatever comes of it."""
        found = self._links.pop(_digest(code), None)
        who = found.shown() if found is not None and self._clock.now() < found.until else None
        if found is None or who is None or who.account != found.account:
            raise NotKnownError(
                "the link is unknown, used or expired",
                hint="`treadle dashboard` makes a new one; each works once, for a minute",
            )
        return who, found.shown

    def _forget_old(self) -> None:
        now = self._clock.now()
        self._sessions = {key: each for key, each in self._sessions.items() if now < each.until}
        self._links = {key: each for key, each in self._links.items() if now < each.until}


def _digest(*secrets_shown: str) -> str:
    """Each has 256 random bits, so that a plain hash will do. No header has a line break in it."""
    return hashlib.sha256("\n".join(secrets_shown).encode()).hexdigest()
