"""Between a call and HTTP: what to send, and what came back. No sockets here.

An answer may have fields that this client does not know; a newer server's are ignored.
"""

import errno
import os
import pwd
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from treadle.client.address import Address
from treadle.client.calls import Call
from treadle.client.errors import (
    CrowdedError,
    LostError,
    NoAnswerError,
    UnreachableError,
    UntrustedError,
)
from treadle.core.errors import TreadleError
from treadle.wire import problems
from treadle.wire.problems import BusyError, RequestError, TooManyError

KNOCK_S_MAX = 5.0
TRUST_VARIABLE = "TREADLE_TRUST"  # names of users whose sockets are trusted, with commas between
ANSWER_BYTES_MAX = 256 * 2**20
# Waits between tries of a call whose connection was lost, in seconds.
RETRY_S = (0.05, 0.2, 0.5, 1.0, 2.0)
# Waits of a client that asks faster than the server lets it.
SLOWER_S = (0.1, 0.2, 0.5, 1.0, 1.0, 1.0)

_REFUSALS = {
    kind.code: kind
    for kind in vars(problems).values()
    if isinstance(kind, type) and issubclass(kind, RequestError)
}
# The first of each status: those that follow are special cases of it.
_BY_STATUS = {kind.status: kind for kind in reversed(_REFUSALS.values())}
TOO_FAST = "too-fast"  # the word for a request that will be carried out a moment later


def request_parts(call: Call) -> dict[str, Any]:
    """Arguments for httpx2's `stream`."""
    headers = dict(call.headers)
    content = None
    if call.body is not None:
        headers["Content-Type"] = "application/json"
        content = msgspec.json.encode(call.body)
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.params) or None,
        "headers": headers,
        "content": content,
    }


def read_answer(call: Call, status: int, body: bytes) -> object:
    """The answer as its type, or the refusal as its error."""
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        raise read_refusal(call, status, body)
    if call.answer == "None":
        return None
    if call.answer == "str":
        return body.decode("utf-8")
    try:
        return msgspec.json.decode(body, type=call.answer_type())
    except msgspec.MsgspecError as error:
        raise NoAnswerError(
            f"the answer to {call.method} {call.path} could not be read ({error});"
            " client and server may be of different versions"
        ) from None


def read_refusal(call: Call, status: int, body: bytes) -> RequestError:
    try:
        problem = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        problem = {}
    sentence = problem.get("detail") or f"{call.method} {call.path} was answered with {status}"
    code = str(problem.get("code", ""))
    kind = _REFUSALS.get(code) or _BY_STATUS.get(status, RequestError)
    error = kind(str(sentence), hint=str(problem.get("hint", "")))
    error.status, error.code = status, code
    return error


class Tries:
    """Whether and when a call is sent again."""

    def __init__(self, call: Call) -> None:
        self.sent = False  # it may have reached a server
        self._waits = iter(RETRY_S if call.repeatable else ())
        self._slower = iter(SLOWER_S)

    def again_in_s(self, error: TreadleError) -> float | None:
        """The wait before the next try; None if there is none."""
        match error:
            case BusyError():
                ladder_s = next(self._slower, None)
                return None if ladder_s is None else max(error.after_s, ladder_s)
            case TooManyError():
                return next(self._slower, None) if error.code == TOO_FAST else None
            case CrowdedError():
                return next(self._slower, None)
            case UnreachableError():
                # A server that was there a moment ago may be starting again.
                return next(self._waits, None) if self.sent else None
            case LostError():
                self.sent = True
                return next(self._waits, None)
            case _:
                return None


def too_long(call: Call) -> NoAnswerError:
    return NoAnswerError(
        f"the answer to {call.method} {call.path} is longer than {ANSWER_BYTES_MAX} bytes"
    )


def unreachable(address: Address, error: BaseException) -> UnreachableError:
    """The error for a server that is not there, or that we may not connect to."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, PermissionError):
        return UnreachableError(
            f"you may not connect to the Treadle server at {address}; ask its owner"
        )
    # asyncio takes the kernel's EAGAIN for "under way", and meets EINVAL next.
    if address.socket and getattr(cause, "errno", None) in (errno.EAGAIN, errno.EINVAL):
        return CrowdedError(
            f"the Treadle server at {address} has no room for another connection now; try again"
        )
    if not address.socket:
        return UnreachableError(
            f"no Treadle server answers at {address}; check the address, and that the server "
            "runs there (treadle up --listen)"
        )
    return UnreachableError(
        f"no Treadle server answers at {address}; start one with `treadle up`, or set TREADLE_URL"
    )


def knock(address: Address) -> None:
    """Raise if no server listens on the Unix socket.

    It takes microseconds, fails before the HTTP library is loaded, and keeps that library from
    leaving a socket open for each connection that is refused.
    """
    if address.socket:
        check_owner(address)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(KNOCK_S_MAX)
            try:
                probe.connect(address.socket)
            except OSError as error:
                raise unreachable(address, error) from None


def check_owner(address: Address, env: Mapping[str, str] = os.environ) -> None:
    """Raise if the socket is neither the caller's nor root's, nor of a user in TREADLE_TRUST.

    In a folder that all users may write to, any of them could have put it there, and would get
    commands, secrets and tokens.
    """
    try:
        owner = os.stat(address.socket).st_uid  # noqa: PTH116  (what a link leads to is asked)
    except OSError as error:
        raise unreachable(address, error) from None
    if owner in (0, os.geteuid()):
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"uid{owner}"
    if name not in (word.strip() for word in env.get(TRUST_VARIABLE, "").split(",")):
        raise UntrustedError(
            f"the socket {address.socket} belongs to {name}, who would see what you submit; "
            f"set {TRUST_VARIABLE}={name} if you trust them"
        )
