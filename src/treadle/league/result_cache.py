"""Outcomes kept by content: the same jobs, settings and source give the same figures."""

from hashlib import sha256
from pathlib import Path

import msgspec

from treadle.core.errors import InvalidInputError
from treadle.files import replace as replace_file
from treadle.files import why_refused
from treadle.league.cell import Figures
from treadle.league.processes import Outcome
from treadle.sim.settings import Settings

_ENTRY_MAX = 100_000  # bytes


def cell_key(jobs: str, settings: Settings, costs: str, source: str) -> str:
    """A name for the outcome of one cell.

    jobs: a digest of the jobs and the cluster. costs: of a table of restart costs, if it has one.
    source: of the code.
    """
    return text_digest("\0".join([jobs, repr(settings), costs, source]))


def text_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {why_refused(error)}") from None


class ResultCache:
    """A folder with one small file for each outcome."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, key: str, limit_s: float) -> Outcome | None:
        """What is known of a cell under this limit on CPU time; None: it must be run.

        A file that cannot be read or understood is as good as none: it is written again.
        """
        path = self._path(key)
        try:
            if path.stat().st_size > _ENTRY_MAX:
                return None
            figures = msgspec.json.decode(path.read_bytes(), type=Figures)
        except (OSError, msgspec.MsgspecError):
            return None
        return Outcome(figures).limited(limit_s)

    def keep(self, key: str, outcome: Outcome) -> None:
        """Write an outcome with figures; an error or a busy machine may be gone next time."""
        if outcome.figures is None:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, msgspec.json.encode(outcome.figures))
        except OSError as error:
            raise InvalidInputError(
                f"cannot write in {self._folder}: {why_refused(error)}; choose another --cache"
            ) from None

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
