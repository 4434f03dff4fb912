"""Tokens: random ones for people, kept as a digest only, and derived ones for jobs.

A job's token is worked out from the job's id, the nonce of its submission and a key of this state
folder, so nothing has to be kept of it and it means nothing once the job has ended. A later job
that gets the same number in another store has another token.
"""

import hashlib
import hmac
import re
import secrets
from typing import NamedTuple

_PERSON = re.compile(r"treadle_([0-9a-f]{12})_([0-9A-Za-z_-]{43})", re.ASCII)
_JOB = re.compile(r"treadlejob_([A-Za-z0-9_.-]{1,64})_([0-9a-f]{64})", re.ASCII)


class Fresh(NamedTuple):
    id: str
    token: str  # to be shown once
    digest: str


def fresh() -> Fresh:
    identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    token = f"treadle_{identity}_{secret}"
    return Fresh(identity, token, digest(token))


def digest(token: str) -> str:
    """What is kept; a token has 256 random bits, so that a plain hash will do."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_persons(token: str) -> bool:
    return _PERSON.fullmatch(token) is not None


def job_token(key: bytes, job: str, nonce: str) -> str:
    return f"treadlejob_{job}_{_mark(key, job, nonce)}"


def job_named(token: str) -> str | None:
    """The job that a token claims to be of; None for anything else. Not checked yet."""
    found = _JOB.fullmatch(token)
    return None if found is None else found[1]


def is_job_token(key: bytes, token: str, job: str, nonce: str) -> bool:
    """Whether the token was made for that submission."""
    return hmac.compare_digest(token.encode(), job_token(key, job, nonce).encode())


def _mark(key: bytes, job: str, nonce: str) -> str:
    return hmac.new(key, f"{job} {nonce}".encode(), hashlib.sha256).hexdigest()
