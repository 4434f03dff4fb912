"""The fingerprint of a server's public key, as `treadle up` prints it and clients pin it.

It is of the key and not of the certificate, so that a renewed certificate keeps it.
"""

import base64
import hashlib
import re

from treadle.core.errors import InvalidInputError

_FORM = re.compile(r"SHA256:[A-Za-z0-9+/]{43}", re.ASCII)


def fingerprint_of(certificate: bytes) -> str:
    """SHA256:... of the public key in a certificate (DER)."""
    # Loading it takes 30 ms, and most commands never see a certificate.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    key = (
        x509.load_der_x509_certificate(certificate)
        .public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def read_fingerprint(text: str) -> str:
    """A fingerprint that a user gave, in the form in which we compare it."""
    found = text.strip().rstrip("=")
    if not _FORM.fullmatch(found):
        raise InvalidInputError(
            f"the fingerprint {text[:80]!r} should be SHA256: and 43 characters, as `treadle up` "
            "prints it on the server"
        )
    return found
