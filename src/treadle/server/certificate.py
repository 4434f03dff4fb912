"""The server's certificate: the files that were given, or one that signs itself and is made once.

The key of a made one stays the same when the certificate is renewed or gets other names, so that
clients that pinned it need not do so again.
"""

import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from treadle.core.errors import InvalidInputError
from treadle.files import create, replace
from treadle.wire.fingerprint import fingerprint_of

VALID_DAYS = 365
RENEW_DAYS = 30  # before it expires
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all good
NAMES_MAX = 64

logger = logging.getLogger("treadle.server")


class CertificateFiles(NamedTuple):
    """Certificate (with its chain) and key, both PEM."""

    certificate: Path
    key: Path


class ServerCertificate:
    """The TLS context of a door. `refresh` keeps it up to date while the server runs."""

    def __init__(self, files: CertificateFiles, *, names: Sequence[str] | None = None) -> None:
        """Use `given` or `made`; with `names` the certificate is ours to renew."""
        self._files = files
        self._names = names
        self._seen: tuple[float, ...] = ()
        self.fingerprint = ""
        self.context = self._load()

    @classmethod
    def given(cls, files: CertificateFiles) -> "ServerCertificate":
        return cls(files)

    @classmethod
    def made(cls, folder: Path, names: Sequence[str], now: datetime) -> "ServerCertificate":
        """The certificate of this folder, made if there is none."""
        files = CertificateFiles(folder / "certificate.pem", folder / "key.pem")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.path.lexists(files.key):
                create(files.key, _fresh_key(), mode=0o600)
            _renew(files, names, now)
        except OSError as error:
            raise InvalidInputError(
                f"the certificate in {folder} cannot be made: {error.strerror}"
            ) from None
        return cls(files, names=names)

    def refresh(self, now: datetime) -> None:
        """Renew our own before it expires, and load files that changed; a failure is logged."""
        try:
            if self._names is not None:
                _renew(self._files, self._names, now)
            if self._seen != _changes(self._files):
                self.context = self._load()
                logger.info("the certificate was loaded again: %s", self.fingerprint)
        except (OSError, InvalidInputError) as error:
            logger.warning("the certificate stays as it was: %s", error)

    def _load(self) -> ssl.SSLContext:
        """A fresh context: one that handshakes use must not be changed in another thread."""
        check_key(self._files.key)
        seen = _changes(self._files)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        context.set_ciphers(CIPHERS)
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a password it would ask for one on the terminal.
            context.load_cert_chain(*self._files, password=lambda: "")
            pem = self._files.certificate.read_text(encoding="ascii")
            first = pem[: pem.index(_END) + len(_END)]
            der = ssl.PEM_cert_to_DER_cert(first[first.index(_BEGIN) :] + "\n")
            self.fingerprint = fingerprint_of(der)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            raise InvalidInputError(
                f"the certificate {self._files.certificate} and the key {self._files.key} cannot "
                f"be used ({_reason(error)}); expected PEM files that belong together, the key "
                "without a password"
            ) from None
        self._seen = seen
        return context


_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def check_key(path: Path) -> None:
    """Refuse a key that others can read: with it they could pose as this server."""
    try:
        found = path.stat()
    except OSError as error:
        raise InvalidInputError(f"the key {path} cannot be read: {error.strerror}") from None
    # Distributions keep keys as root's, readable by one group.
    closed_to = 0o077 if found.st_uid == os.geteuid() != 0 else 0o037
    if found.st_uid not in {os.geteuid(), 0} or found.st_mode & closed_to:
        raise InvalidInputError(
            f"the key {path} can be read by others (mode {found.st_mode & 0o777:o}, owner "
            f"{found.st_uid}); give it to the user who runs Treadle, with mode 600"
        )


def names_for(listen: str, hosts: Sequence[str]) -> list[str]:
    """Names and addresses under which this server is reached, for its own certificate."""
    names = [*hosts, "localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()]
    if listen not in {"0.0.0.0", "::"}:
        names.insert(0, listen)
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        names += [str(each[4][0]).partition("%")[0] for each in found]
    except OSError:
        pass  # This host's name leads nowhere; then it has no addresses to add.
    return [name for name in dict.fromkeys(names) if _can_be_certified(name)][:NAMES_MAX]


def _renew(files: CertificateFiles, names: Sequence[str], now: datetime) -> None:
    """Sign a new certificate with the same key, if the old one expires soon or lacks a name."""
    check_key(files.key)
    if _is_good(files.certificate, names, now):
        return
    try:
        key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise InvalidInputError(
            f"the key {files.key} is damaged; put back a copy, or remove it and log in again on "
            "every client"
        ) from None
    assert isinstance(key, ec.EllipticCurvePrivateKey), "we make no others"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "treadle")])
    day = timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)  # clocks differ
        .not_valid_after(now + VALID_DAYS * day)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    replace(files.certificate, certificate.public_bytes(serialization.Encoding.PEM), mode=0o600)


def _is_good(path: Path, names: Sequence[str], now: datetime) -> bool:
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
        kept = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (FileNotFoundError, ValueError, x509.ExtensionNotFound):
        return False
    left = found.not_valid_after_utc - now
    return left.days >= RENEW_DAYS and {_general(name) for name in names} <= set(kept)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode())


def _can_be_certified(name: str) -> bool:
    try:
        _general(name)
    except ValueError:  # a host may have a name that DNS does not allow
        return False
    return bool(name)


def _fresh_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _changes(files: CertificateFiles) -> tuple[float, ...]:
    return tuple(path.stat().st_mtime_ns for path in files)


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
