"""Checkpoints that are whole or not there: written beside, checked, renamed, the last few kept.

A file is the pickled content, its digest, its length and a mark, in this order: a truncated file
has no mark, and a damaged one another digest. Reading starts with the newest file and goes on to
older ones past those that are damaged. Without torch, plain pickle is used; the content says which
of both it is, since a script may import torch after it asked what to resume from.

The state of a model that is split over ranks is a folder beside the file, as
torch.distributed.checkpoint writes it. The file is written after it and holds the digests of its
parts. Steps number the files: the clock of the machine does not count.
"""

import hashlib
import os
import pickle
import re
import shutil
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from treadle.core.errors import InvalidInputError

MARK = b"treadle-checkpoint-1\n"
_TAIL = hashlib.sha256().digest_size + 8 + len(MARK)
NAME = re.compile(r"checkpoint-(\d{12})$")
_PARTS = re.compile(r"parts-(\d{12})$")
_DRAFT = re.compile(r"\.(checkpoint|parts)-\d+\.part$")
_ZIP = b"PK\x03\x04"  # what torch writes is an archive; a pickle begins otherwise
KEPT = 2
CHUNK_BYTES = 1 << 20
IN_USE: set[str] = set()  # where a run of this process writes by a thread of its own


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
        self._sweep()
        try:
            # Made anew: a link that another user put there would lead elsewhere.
            draft.unlink(missing_ok=True)
            with draft.open("xb") as file:
                digest = Digest(file)
                dump(content, digest)
                digest.finish()
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            with suppress(OSError):
                draft.unlink()
        _flush(self.folder)
        # Newer ones are damaged, or of a run that was given up: they do not push this one out.
        for old in [each for each in self._paths() if each <= path][self._keep :]:
            with suppress(OSError):
                old.unlink()
        self._sweep()
        return path

    def save_parts(self, step: int, parts: Path, rest: dict[str, Any]) -> Path:
        """The same for a state in parts: the folder is moved or copied, and removed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".parts-{os.getpid()}.part"
        place = self.folder / f"parts-{step:012d}"
        try:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            digests = {each.name: _copy(each, draft) for each in sorted(parts.iterdir())}
            _flush(draft)
            shutil.rmtree(place, ignore_errors=True)
            draft.rename(place)
            return self.save(step, {**rest, "parts": digests, "parts_folder": place.name})
        except OSError:
            if not (self.folder / f"checkpoint-{step:012d}").exists():
                shutil.rmtree(place, ignore_errors=True)
            raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            shutil.rmtree(parts, ignore_errors=True)

    def parts_of(self, content: dict[str, Any]) -> Path | None:
        """The folder with the parts of a checkpoint that was loaded."""
        name = content.get("parts_folder")
        return None if name is None else self.folder / name

    def load(self, unreadable: Collection[Path] = ()) -> Any:  # noqa: ANN401
        """The newest that is whole; None if there is none.

        unreadable: folders of parts that turned out to be so.
        """
        for path in self._paths():
            try:
                content = self._read(path)
                if isinstance(content, dict) and (folder := self.parts_of(content)) is not None:
                    if folder in unreadable:
                        continue
                    _check_parts(folder, content["parts"])
            except (OSError, ValueError) as error:
                sys.stderr.write(f"checkpoint {path.name} is passed over: {error}\n")
            else:
                return content
        return None

    def _read(self, path: Path) -> Any:  # noqa: ANN401
        return parsed(_own_bytes(path))

    def _sweep(self) -> None:
        """Remove parts without their file, and what a writer that was killed has left."""
        steps = {path.name.rpartition("-")[2] for path in self._paths()}
        with suppress(OSError):
            for entry in list(self.folder.iterdir()):
                parts = _PARTS.match(entry.name)
                mine = entry.name.endswith(f"-{os.getpid()}.part")
                if parts is not None and parts[1] not in steps and not self._is_new(parts[1]):
                    shutil.rmtree(entry, ignore_errors=True)
                elif _DRAFT.match(entry.name) and not mine:
                    shutil.rmtree(entry, ignore_errors=True)
                    entry.unlink(missing_ok=True)

    def _is_new(self, step: str) -> bool:
        """Whether parts are newer than any file: their own may be on its way."""
        newest = self._paths()[:1]
        return not newest or step > newest[0].name.rpartition("-")[2]

    def _paths(self) -> list[Path]:
        """The newest first."""
        try:
            found = [path for path in self.folder.iterdir() if NAME.match(path.name)]
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
    if place() in IN_USE:
        raise InvalidInputError(
            f"train.checkpoint() was called in a script with train.start(), whose run keeps "
            f"checkpoints of its own in {place()}; use run.save(), and run.keep(name=...) for "
            "more state"
        )
    content = Content()
    yield content
    if int(os.environ.get("RANK", "0")) != 0:
        return
    checkpoints = own_checkpoints()
    if step is None:
        newest = checkpoints._paths()
        step = int(newest[0].name.rpartition("-")[2]) + 1 if newest else 0
    checkpoints.save(step, dict(content))


def resumed() -> dict[str, Any] | None:
    """What the newest whole checkpoint holds; None at the first start."""
    found: dict[str, Any] | None = own_checkpoints().load()
    return found


def place() -> str:
    """Where this job keeps its checkpoints: a folder, or a URL."""
    return os.environ.get("TREADLE_CHECKPOINT_DIR") or "checkpoints"


def is_url(where: str) -> bool:
    return "://" in where


def own_checkpoints() -> Checkpoints:
    """Those of this job."""
    if not is_url(place()):
        return Checkpoints(Path(place()))
    from treadle.train.url_checkpoints import UrlCheckpoints  # noqa: PLC0415  (it needs this file)

    return UrlCheckpoints(place())


def folder() -> Path:
    """The same for those who can write to a folder alone. Raises InvalidInputError at a URL."""
    if is_url(place()):
        raise InvalidInputError(
            f"TREADLE_CHECKPOINT_DIR is {place()}, and this library keeps checkpoints in a folder; "
            "name one that all nodes see"
        )
    return Path(place())


class Digest:
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


def dump(content: object, file: Any) -> None:  # noqa: ANN401
    if (torch := sys.modules.get("torch")) is not None:
        try:
            torch.save(content, file)
        except RuntimeError as error:
            # torch's writer hides the system's own words, such as "no space left on device".
            raise OSError(f"torch could not write it: {error}") from error
    else:
        pickle.dump(content, file)


def parsed(data: bytes) -> Any:  # noqa: ANN401
    """What a file holds. ValueError: it is not whole."""
    tail = data[-_TAIL:]
    if len(data) < _TAIL or not tail.endswith(MARK):
        raise ValueError("it is truncated")
    body = memoryview(data)[:-_TAIL]
    size = int.from_bytes(tail[-len(MARK) - 8 : -len(MARK)], "big")
    if size != len(body) or hashlib.sha256(body).digest() != tail[:32]:
        raise ValueError("it is damaged")
    # It is of the job's own user: it may be trusted as the script is.
    if body[: len(_ZIP)] == _ZIP:
        import torch  # noqa: PLC0415  (scripts that save no tensors need none)

        return torch.load(BytesIO(body), map_location="cpu", weights_only=False)
    return pickle.loads(body)


def _own_bytes(path: Path) -> bytes:
    """The content of a file that no other user can have put there: to unpickle it runs code."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # Without it, a pipe is waited for.
    with os.fdopen(descriptor, "rb") as file:
        found, around = os.fstat(descriptor), path.parent.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no file")
        ours = (0, os.geteuid())
        shut = around.st_uid in ours and not around.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if found.st_uid not in ours and not shut:
            raise ValueError("it belongs to another user, who could run code by it")
        return file.read()


def _copy(file: Path, folder: Path) -> str:
    """Copy a file, or move it on the same disk; its digest."""
    target = folder / file.name
    digest = hashlib.sha256()
    moved = file.stat().st_dev == folder.stat().st_dev
    if moved:
        file.rename(target)
    with (target if moved else file).open("rb") as source, target.open("ab") as copy:
        while data := source.read(CHUNK_BYTES):
            digest.update(data)
            if not moved:
                copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())
    return digest.hexdigest()


def _check_parts(folder: Path, digests: dict[str, str]) -> None:
    for name, expected in digests.items():
        found = hashlib.sha256()
        with (folder / name).open("rb") as file:
            while data := file.read(CHUNK_BYTES):
                found.update(data)
        if found.hexdigest() != expected:
            raise ValueError(f"its part {name} is damaged")


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
