"""Which attempt has written in a checkpoint folder last, or of which attempt it is a copy.

A node that has no file system in common with others may keep an old state of a job's checkpoints,
because the job has run elsewhere since. The record says how old it is. It is beside the folders of
the jobs, in `.records`, out of reach of the jobs themselves.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from treadle.files import replace


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """What a node knows of the checkpoints that it has of one job."""

    attempt: int = 0  # the newest one whose files are there; 0: none that is known
    written: bool = False  # it ran here, and wrote them itself; else they were copied
    part: int = 0  # if it ran on several nodes: which of them this one was
    # What a copy held, by path, with what tells it from another file or link of that path: what an
    # attempt has written here since then is its own. None: there was no copy.
    copied: dict[str, str] | None = None
    # Paths of a copy that its attempt had written itself; others it had been given.
    own: tuple[str, ...] = ()


def record_path(folder: Path) -> Path:
    """Of a job's checkpoint folder."""
    return folder.parent / ".records" / f"{folder.name}.json"


def read_record(folder: Path) -> CheckpointRecord:
    """What is known of a job's checkpoint folder; a record that cannot be read says nothing."""
    try:
        found = json.loads(record_path(folder).read_bytes())
        copied = found.pop("copied", None)
        if copied is not None:
            copied = {str(path): str(mark) for path, mark in copied.items()}
        own = tuple(map(str, found.pop("own", ())))
        return CheckpointRecord(**found, copied=copied, own=own)
    except (OSError, ValueError, TypeError, AttributeError):
        return CheckpointRecord()


def write_record(folder: Path, record: CheckpointRecord) -> None:
    path = record_path(folder)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(path, json.dumps(asdict(record)).encode(), mode=0o600, sync=True)


def note_attempt(folder: Path, attempt: int, part: int) -> None:
    """An attempt is about to write there."""
    known = read_record(folder)
    if known.written and known.attempt == attempt:
        part = min(part, known.part)  # Several of its nodes may share the folder.
    now = CheckpointRecord(attempt=attempt, written=True, part=part, copied=known.copied)
    if now != known:
        write_record(folder, now)


def remove_record(folder: Path) -> None:
    record_path(folder).unlink(missing_ok=True)
