"""What can go wrong on the way to the server; what it refuses has its classes in wire/problems."""

from treadle.core.errors import TreadleError
from treadle.wire.problems import NotAllowedError


class UnreachableError(TreadleError):
    """Nobody listens at the address: nothing was sent."""


class UntrustedError(NotAllowedError):
    """The socket is somebody's whom the caller has not said to trust: nothing was sent."""


class NoAnswerError(TreadleError):
    """The connection was lost or nothing came back in time: it is not known what was done."""


class LostError(NoAnswerError):
    """The connection broke; asking again may help."""
