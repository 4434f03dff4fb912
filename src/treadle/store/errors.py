"""What the store raises: one sentence, and whether it is worth trying again."""

from treadle.core.errors import EngineError


class StoreError(EngineError):
    """The database did not do what it was asked.

    Nothing was written, unless `fate_unknown`: then the connection died in the middle of a commit
    and the database could not be asked since. Writing the same batch again is safe, it is written
    once; writing another one first finds out, and refuses if the lost one is there after all.
    """

    def __init__(self, message: str, *, retryable: bool, fate_unknown: bool = False) -> None:
        super().__init__(message, retryable=retryable)
        self.fate_unknown = fate_unknown


def first_line(error: BaseException) -> str:
    """What a database says, without the statement, its values and where it was found."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__
