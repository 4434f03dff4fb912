"""Encryption of jobs' secrets, with a key in a file beside the store that only its owner may read.

A copy of the store without the key, such as a backup, gives no secrets away.
"""

import hashlib
import hmac
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from cryptography.fernet import Fernet, InvalidToken

from treadle.core.errors import InvalidInputError
from treadle.files import create
from treadle.store.errors import StoreError

KEY_BYTES = 44  # 32 random bytes in base64


class Seal:
    def __init__(self, key: bytes, path: Path) -> None:
        """Use `open`; this takes a key that has been read."""
        try:
            self._fernet = Fernet(key)
        except ValueError as error:
            # Neither the error's text nor the key is repeated.
            raise _damaged(path) from error
        self._key = key
        self._path = path

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the key, or make one if there is none; two processes that do so get the same key."""
        if not os.path.lexists(path):
            _make(path)
        return cls(_read(path), path)

    def seal(self, secrets: Mapping[str, str]) -> bytes:
        return self._fernet.encrypt(json.dumps(dict(secrets)).encode())

    def unseal(self, sealed: bytes) -> dict[str, str]:
        try:
            opened = self._fernet.decrypt(sealed)
        except InvalidToken as error:
            raise StoreError(
                f"a job's secrets do not open with the key in {self._path}; put back the key "
                "they were sealed with, or submit the job again",
                retryable=False,
            ) from error
        secrets: dict[str, str] = json.loads(opened)
        return secrets

    def derive(self, purpose: str) -> bytes:
        """A separate key for another purpose, from which this one cannot be computed."""
        return hmac.new(self._key, purpose.encode(), hashlib.sha256).digest()

    def __repr__(self) -> str:
        return f"Seal({str(self._path)!r})"


def _make(path: Path) -> None:
    """Write a fresh key, unless another process has just done so."""
    try:
        create(path, Fernet.generate_key(), mode=0o600)
    except OSError as error:
        raise StoreError(f"cannot make the key {path}: {error.strerror}", retryable=True) from error


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise StoreError(
            f"cannot read the key {path}: {error.strerror}", retryable=False
        ) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInputError(f"the key {path} is not a file; remove it")
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise InvalidInputError(
                f"the key {path} is open to others; it must belong to the user who runs Treadle, "
                "with mode 600"
            )
        key = os.read(descriptor, KEY_BYTES + 2).strip()
    finally:
        os.close(descriptor)
    if len(key) != KEY_BYTES:
        raise _damaged(path)
    return key


def _damaged(path: Path) -> InvalidInputError:
    return InvalidInputError(
        f"the key in {path} is damaged, {KEY_BYTES} characters of base64 are expected; put back a "
        "copy, or remove it and submit the jobs that have secrets again"
    )
