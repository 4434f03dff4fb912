"""TLS: the server's certificate, and what a client does before it sends anything."""

import contextlib
import datetime
import os
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.server.running import Running, running
from tests.server.tls import certificate_files, running_tls
from treadle.client import Client
from treadle.client.address import Address
from treadle.client.connection import check_way
from treadle.client.contexts import Contexts, ServerContext, write_contexts
from treadle.client.errors import UntrustedError
from treadle.client.pinning import key_of_server
from treadle.core.errors import InvalidInputError
from treadle.server.certificate import CertificateFiles, ServerCertificate
from treadle.server.limits import DoorLimits
from treadle.server.settings import ServerSettings
from treadle.wire.jobs import JobRequest
from treadle.wire.machine import Role

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
OTHER = "SHA256:" + "A" * 43


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running_tls(tmp_path / "tls") as found:
        yield found


def logged_in(url: str, fingerprint: str, token: str = "") -> None:
    one = ServerContext(url=url, token=token, fingerprint=fingerprint)
    write_contexts(Contexts(current="lab", known={"lab": one}))


def test_a_pinned_server_is_served(server: Running):
    token = server.service.token("ada", Role.USER)
    logged_in(server.url, server.bound.fingerprint, token)
    with Client() as client:
        assert client.address.url == server.url
        assert client.submit(JobRequest(command=("true",))).id == "1"
        assert client.job("1").job.user == "ada"


def test_without_a_pin_a_certificate_that_signs_itself_is_refused(server: Running):
    with Client(server.url, "treadle_x") as client, pytest.raises(UntrustedError) as refused:
        client.status()
    assert str(refused.value).startswith(
        f"the certificate of {server.url} is not one that this machine trusts ("
    )
    assert f"`treadle login {server.url}` shows its key and pins it" in str(refused.value)


class Listener(threading.Thread):
    """Speaks TLS with a key of its own and keeps everything that is sent to it."""

    def __init__(self, files: CertificateFiles) -> None:
        super().__init__(daemon=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*files)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.heard = b""
        self.connections = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            connection.settimeout(30)
            try:
                with self.context.wrap_socket(connection, server_side=True) as secured:
                    while data := secured.recv(65_536):
                        self.heard += data
            except OSError:
                connection.close()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Listener]:
    made = Listener(certificate_files(tmp_path / "stranger"))
    made.start()
    yield made
    made.listener.shutdown(socket.SHUT_RDWR)
    made.listener.close()
    made.join(30)


def test_nothing_is_sent_to_a_server_with_another_key(stranger: Listener):
    """The handshake ends; the check comes before the first byte of the request."""
    logged_in(stranger.url, OTHER, "treadle_secret")
    with Client() as client, pytest.raises(UntrustedError) as refused:
        client.status()
    found = key_of_server(*address(stranger.url))
    assert str(refused.value) == (
        f"the server at {stranger.url} has another key than before ({found}; expected {OTHER}), "
        "so nothing was sent to it; if its owner says that the key was changed, run `treadle "
        f"login {stranger.url}` again"
    )
    assert stranger.connections >= 1
    assert stranger.heard == b""


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_new_versions_of_tls_are_spoken(server: Running, version: ssl.TLSVersion):
    context = insecure()
    context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(address(server.url), timeout=30) as connection,
        context.wrap_socket(connection) as secured,
    ):
        cipher = secured.cipher()
        assert cipher is not None
        assert "GCM" in cipher[0] or "CHACHA20" in cipher[0]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_of_tls_are_not(server: Running):
    context = insecure()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with (
        socket.create_connection(address(server.url), timeout=30) as connection,
        pytest.raises(OSError),
    ):
        context.wrap_socket(connection)


def test_plain_http_is_not_answered_on_a_tls_port(server: Running):
    with socket.create_connection(address(server.url), timeout=30) as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        try:
            while more := connection.recv(4096):
                received += more
        except ConnectionError:
            pass
    assert b"HTTP/" not in received


def insecure() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


# -- the certificate


def made(folder: Path, names: tuple[str, ...] = ("a.lab",), now: datetime.datetime = NOW) -> str:
    return ServerCertificate.made(folder, names, now).fingerprint


def test_a_certificate_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path):
    first = made(tmp_path / "tls")
    content = (tmp_path / "tls" / "certificate.pem").read_bytes()
    assert made(tmp_path / "tls") == first
    assert (tmp_path / "tls" / "certificate.pem").read_bytes() == content
    assert stat.S_IMODE((tmp_path / "tls" / "key.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("names", "now"), [(("a.lab",), NOW + 340 * DAY), (("a.lab", "10.0.0.7"), NOW)]
)
def test_a_renewed_certificate_keeps_the_key(
    tmp_path: Path, names: tuple[str, ...], now: datetime.datetime
):
    first = made(tmp_path)
    content = (tmp_path / "certificate.pem").read_bytes()
    assert made(tmp_path, names, now) == first
    assert (tmp_path / "certificate.pem").read_bytes() != content


def test_a_running_server_renews_its_certificate(tmp_path: Path):
    found = ServerCertificate.made(tmp_path, ("a.lab",), NOW)
    before = (tmp_path / "certificate.pem").read_bytes(), found.fingerprint
    found.refresh(NOW + 300 * DAY)
    assert (tmp_path / "certificate.pem").read_bytes() == before[0]
    found.refresh(NOW + 340 * DAY)
    assert (tmp_path / "certificate.pem").read_bytes() != before[0]
    assert found.fingerprint == before[1]


def test_given_files_are_loaded_again_when_they_change(tmp_path: Path):
    files = certificate_files(tmp_path / "one")
    found = ServerCertificate.given(files)
    other = certificate_files(tmp_path / "two")
    for old, new in zip(files, other, strict=True):
        old.write_bytes(new.read_bytes())
        os.utime(old, ns=(1, 1))
    found.refresh(NOW)
    assert found.fingerprint == ServerCertificate.given(other).fingerprint


def test_a_key_that_others_can_read_is_refused(tmp_path: Path):
    files = certificate_files(tmp_path)
    files.key.chmod(0o644)
    with pytest.raises(InvalidInputError) as refused:
        ServerCertificate.given(files)
    assert str(refused.value) == (
        f"the key {files.key} can be read by others (mode 644, owner {os.getuid()}); give it to "
        "the user who runs Treadle, with mode 600"
    )


def test_a_certificate_and_a_key_that_do_not_belong_together_are_refused(tmp_path: Path):
    one, two = certificate_files(tmp_path / "one"), certificate_files(tmp_path / "two")
    with pytest.raises(InvalidInputError, match="expected PEM files that belong together"):
        ServerCertificate.given(CertificateFiles(one.certificate, two.key))
    one.certificate.write_text("nothing")
    with pytest.raises(InvalidInputError, match="cannot be used"):
        ServerCertificate.given(one)


# -- the way to a server


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("https://lab.example:1", True),
        ("http://lab.example:1", False),
        ("http://10.0.0.7:1", False),
        ("http://localhost.lab.example:1", False),
    ],
)
def test_a_token_is_not_sent_in_the_clear_beyond_this_machine(url: str, fine: bool):
    if fine:
        check_way(Address("", url), "treadle_x")
        return
    with pytest.raises(UntrustedError, match="could be read on the way; use https://"):
        check_way(Address("", url), "treadle_x")
    check_way(Address("", url), None)


# -- connections (A4) over TLS


def test_a4_a_handshake_that_never_comes_is_given_up(tmp_path: Path):
    """Silent connections on a port with TLS are evicted and closed like those without."""
    settings = ServerSettings(tcp=DoorLimits(4, 4))
    with (
        running(tls=certificate_files(tmp_path), settings=settings) as server,
        contextlib.ExitStack() as opened,
    ):
        place = address(server.url)
        silent = [opened.enter_context(socket.create_connection(place)) for _ in range(6)]
        for each in silent[:2]:
            each.settimeout(30)
            assert each.recv(1) == b""
        token = server.service.token("ada", Role.USER)
        with Client(server.address, token) as client:
            assert client.status().version == "0"
        for each in silent[2:]:
            each.settimeout(30)
            assert each.recv(1) == b""


def test_a_handshake_of_garbage_ends_that_connection_only(server: Running):
    for garbage in (b"\x16\x03\x01" + b"\xff" * 600, b"\0" * 600, b"SSH-2.0-x\r\n"):
        with socket.create_connection(address(server.url), timeout=30) as connection:
            connection.sendall(garbage)
            with contextlib.suppress(ConnectionError):
                while connection.recv(4096):
                    pass
    with Client(server.address, server.service.token("ada", Role.USER)) as client:
        assert client.health() == {"status": "ok"}
