"""Tokens: random ones for people, of which only a digest is kept, and derived ones for jobs.

A job's token is worked out from the job's id and a key of this store, so nothing has to be kept of
it and it means nothing once the job has ended.
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


def job_token(key: bytes, job: str) -> str:
    return f"treadlejob_{job}_{_mark(key, job)}"


def job_of(key: bytes, token: str) -> str | None:
    """The job that a token was made for; None for anything else."""
    found = _JOB.fullmatch(token)
    if found is None or not hmac.compare_digest(found[2], _mark(key, found[1])):
        return None
    return found[1]


def _mark(key: bytes, job: str) -> str:
    return hmac.new(key, job.encode(), hashlib.sha256).hexdigest()
