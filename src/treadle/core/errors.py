"""What can go wrong, and whose it is to mend.

TreadleError
 ├── InvalidInputError   the user's: a sentence that names the thing, what was expected and found
 ├── PolicyError         a policy's: the decision is dropped, the last good schedule stays
 │    └── DoubleBookingError
 └── EngineError         the world's: retryable or not
      └── NodeAwayError  what is asked for is on a node that is not there

Our own mistakes are asserts, not errors.
"""


class TreadleError(Exception):
    """The root of everything Treadle raises on purpose."""


class InvalidInputError(TreadleError):
    """Something the user gave us cannot be used; the message is shown as it stands."""


class PolicyError(TreadleError):
    """A policy asked for something impossible; nothing of that decision is carried out."""


class DoubleBookingError(PolicyError):
    """Two jobs were given the same turn on the same device."""


class EngineError(TreadleError):
    """The world did not do what it was asked."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class NodeAwayError(EngineError):
    """What is asked for is on a node that is not there now; it may return."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)
