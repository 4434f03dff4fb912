"""The state of the code at submission: commit, branch and changes.

git is asked as `treadle/repository.py` says: it runs nothing that a repository could name.
"""

from pathlib import Path

from treadle.repository import DIFF_BYTES_MAX, TIME_LIMIT_S
from treadle.repository import git_state as state_of
from treadle.wire.jobs import Code


def git_state(
    folder: str | Path, *, diff_bytes_max: int = DIFF_BYTES_MAX, time_limit_s: float = TIME_LIMIT_S
) -> Code | None:
    """The state of the repository that holds the folder; None outside git."""
    found = state_of(folder, diff_bytes_max=diff_bytes_max, time_limit_s=time_limit_s)
    if found is None:
        return None
    return Code(
        commit=found.commit,
        branch=found.branch,
        dirty=bool(found.diff),
        diff=found.diff or "",
        cut=found.cut or found.diff is None,
    )
