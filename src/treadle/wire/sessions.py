"""Sessions of the web page: how a browser shows who it is."""

from dataclasses import dataclass

from treadle.wire.machine import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """What to log in with: a token, or the code of a link that `treadle dashboard` made."""

    token: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """Who the caller is."""

    user: str
    role: Role
    expires_at: float | None = None  # seconds since 1970; None: never
    # For the header X-CSRF-Token of every request; given once, when a session begins.
    csrf: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMade:
    """A link that logs a browser in, once."""

    url: str
    expires_at: float
