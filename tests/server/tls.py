"""A server with TLS for tests, and files to give it."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server.running import Running, running
from treadle.server.certificate import CertificateFiles, ServerCertificate

NAMES = ("localhost", "127.0.0.1")


def certificate_files(folder: Path, *, names: tuple[str, ...] = NAMES) -> CertificateFiles:
    """A certificate that signs itself, with its key."""
    ServerCertificate.made(folder, names, datetime.datetime.now(datetime.UTC))
    return CertificateFiles(folder / "certificate.pem", folder / "key.pem")


@contextmanager
def running_tls(folder: Path) -> Iterator[Running]:
    with running(tls=certificate_files(folder)) as server:
        yield server
