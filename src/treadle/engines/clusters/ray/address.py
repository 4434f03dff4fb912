"""Where the cluster is: what the user gave, whether it answers, and what Ray must know before."""

import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from treadle.core.errors import InvalidInputError

VARIABLE = "RAY_ADDRESS"
ANSWERS_WITHIN_S = 3.0
TOKEN_HELP = (
    "set RAY_AUTH_MODE=token and the token of the cluster in RAY_AUTH_TOKEN, or its file in "
    "RAY_AUTH_TOKEN_PATH"
)
NO_TOKEN = f"RAY_AUTH_MODE is token, and there is no token; {TOKEN_HELP}"
_PORTS_OF_WORKERS = range(10_002, 20_000)


def given_address(option: str, environment: Mapping[str, str]) -> str:
    """The address of a running cluster, HOST:PORT; empty to start one here.

    Raises InvalidInputError if it has another form.
    """
    text = option or environment.get(VARIABLE, "")
    if text in ("", "local"):
        return ""
    if "://" in text:
        raise InvalidInputError(
            f"the address of the Ray cluster is {text[:80]!r}; expected HOST:PORT of its head "
            "(ray start --head prints it), without a scheme: Ray Client is not used"
        )
    found = re.fullmatch(r"\[?([^\[\]\s]+?)\]?:([0-9]{1,5})", text)
    if not found or not 0 < int(found[2]) <= 65_535:
        raise InvalidInputError(
            f"the address of the Ray cluster is {text[:80]!r}; expected HOST:PORT of its head, "
            "such as 10.0.0.1:6379"
        )
    return text


def check_answers(address: str, *, advice: str = "", within_s: float = ANSWERS_WITHIN_S) -> None:
    """Raise InvalidInputError if nothing accepts connections there: Ray would wait for minutes.

    advice: how its sentence ends.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=within_s).close()
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise InvalidInputError(
            f"no Ray cluster answers at {address} ({why.lower()}){advice}"
        ) from None


def check_token(environment: Mapping[str, str]) -> None:
    """Raise InvalidInputError if the token that Ray asks for cannot be read: Ray would abort."""
    if environment.get("RAY_AUTH_MODE", "").lower() != "token" or environment.get("RAY_AUTH_TOKEN"):
        return
    given = environment.get("RAY_AUTH_TOKEN_PATH", "")
    path = Path(given or Path(environment.get("HOME", "/"), ".ray", "auth_token"))
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        if not given:
            raise InvalidInputError(NO_TOKEN) from None
        why = "cannot be read (no such file)"
    except OSError as error:
        why = f"cannot be read ({(error.strerror or str(error)).lower()})"
    else:
        if content.strip():
            return
        why = "is empty"
    raise InvalidInputError(f"the file of Ray's token, {path}, {why}; {TOKEN_HELP}")


def is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def surroundings(address: str) -> dict[str, str]:
    """Variables that Ray reads when it is imported.

    With an address of loopback Ray would look for the cluster at the address of a network card. The
    switch that stops it is named after the systems on which it is the default.
    """
    found = {"RAY_USAGE_STATS_ENABLED": "0"}
    if is_loopback(address):
        found["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    return found


def free_port() -> int:
    """A port for a head on loopback. Ray refuses those from which its workers take theirs."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in _PORTS_OF_WORKERS:
            return port


def here() -> str:
    """This process, for people on other machines."""
    return f"{socket.gethostname()}, pid {os.getpid()}"
