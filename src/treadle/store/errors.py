"""The store's error: one sentence, and whether a retry may help."""

from treadle.core.errors import EngineError


class StoreError(EngineError):
    """A database operation failed.

    Nothing was written, unless `fate_unknown`: then the connection died during a commit and the
    database has not answered since. Writing the same batch again is safe: it is written once.
    Writing another batch first checks, and refuses if the first one was written after all.
    `unreached`: there was no connection to the database, or it was lost.
    """

    def __init__(
        self, message: str, *, retryable: bool, fate_unknown: bool = False, unreached: bool = False
    ) -> None:
        super().__init__(message, retryable=retryable)
        self.fate_unknown = fate_unknown
        self.unreached = unreached


def first_line(error: BaseException) -> str:
    """A database's message without the statement, its values and its position."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__
