"""The errors of the API, each with its HTTP status and a stable code for programs."""

from treadle.core.errors import TreadleError


class RequestError(TreadleError):
    """A request that failed; the message is one sentence for people."""

    status = 400
    code = "bad-request"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InvalidRequestError(RequestError):
    status, code = 422, "invalid"


class NotKnownError(RequestError):
    status, code = 401, "not-known"


class NotAllowedError(RequestError):
    status, code = 403, "not-allowed"


class NotFoundError(RequestError):
    status, code = 404, "not-found"


class UnknownNameError(NotFoundError):
    """There is no such node, device or token. A job that is not there is the other error."""

    code = "unknown-name"


class ConflictError(RequestError):
    status, code = 409, "conflict"


class LostOutputError(ConflictError):
    """The output is on a node that was lost; it can be read if that node returns."""

    code = "lost-output"


class TooLargeError(RequestError):
    status, code = 413, "too-large"


class TooManyError(RequestError):
    status, code = 429, "too-many"


class UnavailableError(RequestError):
    """The store cannot be written at the moment; nothing was changed."""

    status, code = 503, "unavailable"


class UnsettledError(UnavailableError):
    """It was taken and is not in the store yet: it is done once the store can be written, and
    forgotten if the daemon ends before."""

    code = "unsettled"


class BusyError(UnavailableError):
    """The server has too much to do; nothing was done. The same request later may be answered."""

    code = "busy"
    after_s = 1  # as Retry-After says
