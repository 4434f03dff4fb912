"""How many bytes of text a job brings with it, and how many a user may have waiting.

Every member of an array is kept with its own copy, in the journal and in the store: a request of a
few hundred kilobytes could ask for gigabytes.
"""

from collections import Counter

from treadle.control.jobs.records import JobRecord
from treadle.core.job import JobId
from treadle.wire.problems import InvalidRequestError, TooManyError

SUBMISSION_BYTES_MAX = 64 * 2**20
USER_BYTES_MAX = 256 * 2**20
ADVICE = "put what is long into a file that the jobs read"

Owner = tuple[int | None, str]


class Weights:
    """Of the jobs that have not ended, by their owners."""

    def __init__(self) -> None:
        self._of_jobs: dict[JobId, int] = {}
        self._of_owners: Counter[Owner] = Counter()

    def add(self, record: JobRecord, sealed: bytes) -> None:
        self.drop(record)
        weight = weight_of(record) + len(sealed)
        self._of_jobs[record.id] = weight
        self._of_owners[record.uid, record.owner] += weight

    def drop(self, record: JobRecord) -> None:
        owner = record.uid, record.owner
        self._of_owners[owner] -= self._of_jobs.pop(record.id, 0)
        if not self._of_owners[owner]:
            del self._of_owners[owner]

    def check(self, record: JobRecord, secrets: int, members: int) -> None:
        """Refuse a submission that is too much; `secrets` are the bytes of one member's."""
        more = members * (weight_of(record) + secrets)
        if more > SUBMISSION_BYTES_MAX:
            raise InvalidRequestError(
                f"the commands and variables of {members:,} jobs are {_mib(more)} together; one "
                f"submission has at most {_mib(SUBMISSION_BYTES_MAX)}",
                hint=ADVICE,
            )
        there = self._of_owners[record.uid, record.owner]
        if there + more > USER_BYTES_MAX:
            raise TooManyError(
                f"the commands and variables of {record.owner}'s active jobs are {_mib(there)}, "
                f"and this asks for {_mib(more)} more; the limit for one user is "
                f"{_mib(USER_BYTES_MAX)}",
                hint=ADVICE,
            )


def weight_of(record: JobRecord) -> int:
    """Bytes of its texts that have no short limit of their own."""
    texts = (*record.command, *record.env, *record.env.values(), record.workdir)
    return sum(map(text_bytes, (*texts, *record.after, *record.after_any)))


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"
