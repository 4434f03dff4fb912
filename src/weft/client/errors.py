"""What can go wrong on the way to the server; what it refuses has its classes in wire/problems."""

from weft.core.errors import WeftError
from weft.wire.problems import NotAllowedError


class UnreachableError(WeftError):
    """Nobody listens at the address: nothing was sent."""


class UntrustedError(NotAllowedError):
    """The socket is somebody's whom the caller has not said to trust: nothing was sent."""


class NoAnswerError(WeftError):
    """The connection was lost or nothing came back in time: it is not known what was done."""


class LostError(NoAnswerError):
    """The connection broke; asking again may help."""
