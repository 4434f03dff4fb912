"""How to reach an API server: a kubeconfig, or what Kubernetes mounts into every pod."""

import base64
import os
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from treadle.core.errors import InvalidInputError

IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NAMESPACE = "treadle"  # where the kubeconfig names none
READ_AGAIN_S = 60.0  # a token in a file, which is changed from time to time
HELPER_WITHIN_S = 30.0

Token = Callable[[bool], str]  # told whether the one before was refused; empty: there is none


class Access(NamedTuple):
    """An API server, and who we are there."""

    server: str
    trust: ssl.SSLContext
    token: Token
    namespace: str
    inside: bool = False  # in a pod: addresses of pods can be reached


def access(context: str, environment: Mapping[str, str] = os.environ) -> Access:
    """By the context of that name, or the current one; in a pod without a kubeconfig, by its own.

    Raises InvalidInputError.
    """
    path = Path(environment.get("KUBECONFIG") or Path.home() / ".kube" / "config")
    if not path.is_file() and "KUBERNETES_SERVICE_HOST" in environment and IN_POD.is_dir():
        return in_pod(environment, IN_POD / "token", IN_POD / "ca.crt", _text(IN_POD / "namespace"))
    try:
        document = yaml.safe_load(path.read_text())
        return _from_document(document, context, path)
    except OSError as error:
        raise InvalidInputError(
            f"there is no kubeconfig ({path}: {error.strerror}); set KUBECONFIG"
        ) from None
    except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path} is no kubeconfig: {error!r}") from None


def in_pod(environment: Mapping[str, str], token: Path, authority: Path, namespace: str) -> Access:
    """From files that Kubernetes mounts."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    trust = ssl.create_default_context(cafile=str(authority))
    return Access(server, trust, file_token(token), namespace, inside=True)


def file_token(path: Path) -> Token:
    """What is in that file, read again now and then."""
    read: list[tuple[float, str]] = []

    def token(refused: bool) -> str:
        now = _now()
        if refused or not read or now - read[0][0] > READ_AGAIN_S:
            read[:] = [(now, _text(path))]
        return read[0][1]

    return token


def _from_document(document: Any, chosen: str, path: Path) -> Access:  # noqa: ANN401
    name = chosen or document.get("current-context") or ""
    context = _named(document["contexts"], "context", name, path)
    cluster = _named(document["clusters"], "cluster", context["cluster"], path)
    user = _named(document["users"], "user", context["user"], path)
    trust = _trust(cluster, path)
    if certificate := _content(user, "client-certificate", path):
        _load(trust, certificate + b"\n" + _content(user, "client-key", path))
    namespace = context.get("namespace") or NAMESPACE
    return Access(cluster["server"].rstrip("/"), trust, _token(user, path), namespace)


def _named(entries: Any, kind: str, name: str, path: Path) -> dict[str, Any]:  # noqa: ANN401
    for entry in entries or ():
        if entry["name"] == name:
            return dict(entry.get(kind) or {})
    known = ", ".join(sorted(entry["name"] for entry in entries or ())) or "none"
    raise InvalidInputError(f"{path} has no {kind} {name!r}; it has {known}")


def _trust(cluster: Mapping[str, Any], path: Path) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", path).decode()
    trust = ssl.create_default_context(cadata=authority or None)
    if cluster.get("insecure-skip-tls-verify"):
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    return trust


def _content(entry: Mapping[str, Any], name: str, path: Path) -> bytes:
    """What an entry holds itself, or the file has that it names; empty: neither."""
    if data := entry.get(f"{name}-data"):
        return base64.b64decode(data)
    found = entry.get(name)
    return (path.parent / found).read_bytes() if found else b""


def _load(trust: ssl.SSLContext, certificate: bytes) -> None:
    """Python's TLS reads keys from files alone."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate)
        file.flush()
        trust.load_cert_chain(file.name)


def _token(user: Mapping[str, Any], path: Path) -> Token:
    if token := user.get("token"):
        return lambda _: str(token)
    if file := user.get("tokenFile"):
        return file_token(path.parent / file)
    if helper := user.get("exec"):
        return _LoginProgram(helper, path.parent)
    if "auth-provider" in user or "username" in user:
        raise InvalidInputError(
            f"the user in {path} logs in by a password or an auth-provider; expected a token, a "
            "client certificate or an exec helper"
        )
    return lambda _: ""


class _LoginProgram:
    """The program that a kubeconfig names, which prints tokens (ExecCredential)."""

    def __init__(self, entry: Mapping[str, Any], folder: Path) -> None:
        self._words = [entry["command"], *(entry.get("args") or ())]
        self._version, self._folder = entry["apiVersion"], folder
        self._extra = {each["name"]: each["value"] for each in entry.get("env") or ()}
        self._token, self._until = "", 0.0

    def __call__(self, refused: bool) -> str:
        now = _now()
        if refused or not self._token or now >= self._until:
            self._token, self._until = self._ask()
        return self._token

    def _ask(self) -> tuple[str, float]:
        asked = {"apiVersion": self._version, "kind": "ExecCredential", "spec": {}}
        environment = {**os.environ, **self._extra}
        environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(asked).decode()
        try:
            done = subprocess.run(
                self._words,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=HELPER_WITHIN_S,
                check=True,
            )
            status = msgspec.json.decode(done.stdout)["status"]
            until = status.get("expirationTimestamp")
            moment = datetime.fromisoformat(until).timestamp() if until else float("inf")
            return str(status["token"]), moment
        except (OSError, subprocess.SubprocessError, msgspec.MsgspecError, LookupError) as error:
            raise InvalidInputError(
                f"{self._words[0]}, which the kubeconfig names, gives no token: {error}"
            ) from None


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _text(path: Path) -> str:
    return path.read_text().strip()
