"""Checkpoints that are whole or not there: written beside, checked, renamed, the last few kept.

A file is the pickled content, its digest, its length and a mark, in this order: a truncated file
has no mark, and a damaged one another digest. Reading starts with the newest file and goes on to
older ones past those that are damaged. Without torch, plain pickle is used.
"""

import hashlib
import os
import pickle
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

MARK = b"treadle-checkpoint-1\n"
_TAIL = hashlib.sha256().digest_size + 8 + len(MARK)
_NAME = re.compile(r"checkpoint-(\d{12})$")
KEPT = 2


class Checkpoints:
    """The checkpoints in one folder, by step."""

    def __init__(self, folder: Path, keep: int = KEPT) -> None:
        self.folder = folder
        self._keep = keep

    def save(self, step: int, content: object) -> Path:
        """Write one and remove those beyond the last few. OSError: the old ones are still there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"checkpoint-{step:012d}"
        draft = self.folder / f".checkpoint-{os.getpid()}.part"
        try:
            with draft.open("wb") as file:
                digest = _Digest(file)
                _dump(content, digest)
                digest.finish()
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            with suppress(OSError):
                draft.unlink()
        _flush(self.folder)
        for old in self._paths()[self._keep :]:
            with suppress(OSError):
                old.unlink()
        return path

    def load(self) -> Any:  # noqa: ANN401
        """The newest that is whole; None if there is none."""
        for path in self._paths():
            try:
                return _read(path)
            except (OSError, ValueError) as error:
                sys.stderr.write(f"checkpoint {path.name} is passed over: {error}\n")
        return None

    def _paths(self) -> list[Path]:
        """The newest first."""
        try:
            found = [path for path in self.folder.iterdir() if _NAME.match(path.name)]
        except OSError:
            return []
        return sorted(found, reverse=True)


class Content(dict[str, Any]):
    """What `with checkpoint() as c` saves: c["model"] = model.state_dict()."""


@contextmanager
def checkpoint(step: int | None = None) -> Iterator[Content]:
    """Save what the block puts into the dict, in one piece, on rank 0 alone.

    If the block raises, nothing is saved. step: of the training; counted up if not given.
    """
    content = Content()
    yield content
    if int(os.environ.get("RANK", "0")) != 0:
        return
    checkpoints = Checkpoints(folder())
    if step is None:
        newest = checkpoints._paths()
        step = int(newest[0].name.rpartition("-")[2]) + 1 if newest else 0
    checkpoints.save(step, dict(content))


def resumed() -> dict[str, Any] | None:
    """What the newest whole checkpoint holds; None at the first start."""
    found: dict[str, Any] | None = Checkpoints(folder()).load()
    return found


def folder() -> Path:
    """Where this job keeps its checkpoints."""
    return Path(os.environ.get("TREADLE_CHECKPOINT_DIR") or "checkpoints")


class _Digest:
    """A file that counts and digests what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._count = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self._count += memoryview(data).nbytes
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def finish(self) -> None:
        self._file.write(self._hash.digest() + self._count.to_bytes(8, "big") + MARK)


def _dump(content: object, file: Any) -> None:  # noqa: ANN401
    if (torch := sys.modules.get("torch")) is not None:
        try:
            torch.save(content, file)
        except RuntimeError as error:
            # torch's writer hides the system's own words, such as "no space left on device".
            raise OSError(f"torch could not write it: {error}") from error
    else:
        pickle.dump(content, file)


def _read(path: Path) -> Any:  # noqa: ANN401
    data = path.read_bytes()
    tail = data[-_TAIL:]
    if len(data) < _TAIL or not tail.endswith(MARK):
        raise ValueError("it is truncated")
    body = memoryview(data)[:-_TAIL]
    size = int.from_bytes(tail[-len(MARK) - 8 : -len(MARK)], "big")
    if size != len(body) or hashlib.sha256(body).digest() != tail[:32]:
        raise ValueError("it is damaged")
    if (torch := sys.modules.get("torch")) is not None:
        # The folder is the job's own: what lies there may be trusted as its script is.
        return torch.load(BytesIO(body), map_location="cpu", weights_only=False)
    return pickle.loads(body)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
