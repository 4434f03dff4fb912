"""Connection errors; what the server refuses has its classes in wire/problems."""

from treadle.core.errors import TreadleError
from treadle.wire.problems import NotAllowedError


class UnreachableError(TreadleError):
    """No server listens at the address: nothing was sent."""


class CrowdedError(UnreachableError):
    """A server listens, and as many connections wait at its socket as may: nothing was sent."""


class UntrustedError(NotAllowedError):
    """The server, or the way to it, is not trusted: nothing was sent."""


class NoAnswerError(TreadleError):
    """The connection was lost or timed out: the request may or may not have been carried out."""


class LostError(NoAnswerError):
    """The connection broke; asking again may help."""
