"""Outcomes kept by content: the same jobs, settings and source give the same figures."""

import json
from dataclasses import asdict
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
            document = json.loads(path.read_bytes())
            if "cut_off_s" in document:
                cut_off_s = float(document["cut_off_s"])
                return Outcome(cut_off_s=limit_s) if limit_s <= cut_off_s else None
            figures = msgspec.convert(document["figures"], Figures)
            return Outcome(figures).limited(limit_s)
        except (OSError, ValueError, KeyError, TypeError, msgspec.ValidationError):
            return None

    def keep(self, key: str, outcome: Outcome) -> None:
        """Write an outcome; errors are not kept, because their cause may be gone next time."""
        if outcome.error:
            return
        document = (
            {"cut_off_s": outcome.cut_off_s}
            if outcome.figures is None
            else {"figures": asdict(outcome.figures)}
        )
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(document).encode())
        except OSError as error:
            raise InvalidInputError(
                f"cannot write in {self._folder}: {why_refused(error)}; choose another --cache"
            ) from None

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
