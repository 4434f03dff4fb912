"""Checkpoints at a URL, such as s3://bucket/run7, through fsspec.

What is written there appears when it is closed; one that was cut off is passed over, as on a disk.
"""

import atexit
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from treadle.core.errors import InvalidInputError
from treadle.train.checkpoint import CHUNK_BYTES, KEPT, NAME, Checkpoints, Digest, dump, parsed


def opened(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path there. Raises InvalidInputError if it has none."""
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415  (only those who have a URL need it)

        found: tuple[Any, str] = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InvalidInputError(
            f"checkpoints are to be kept at {url}, and this environment cannot: {error}; install "
            "fsspec and the package for this kind of URL (s3fs, gcsfs, adlfs), or name a folder"
        ) from None
    return found


class UrlCheckpoints(Checkpoints):
    """Those below one URL, by step."""

    def __init__(self, url: str, keep: int = KEPT) -> None:
        super().__init__(Path(), keep)
        self._files, self._root = opened(url)
        self._fetched: Path | None = None  # parts that were loaded

    def save(self, step: int, content: object) -> Path:
        path = Path(f"checkpoint-{step:012d}")
        with _as_os_error():
            self._files.makedirs(self._root, exist_ok=True)
            with self._files.open(self._at(path), "wb") as file:
                digest = Digest(file)
                dump(content, digest)
                digest.finish()
            for old in [each for each in self._paths() if each <= path][self._keep :]:
                self._files.rm(self._at(old))
                parts = self._at(Path(old.name.replace("checkpoint", "parts")))
                if self._files.exists(parts):
                    self._files.rm(parts, recursive=True)
        return path

    def save_parts(self, step: int, parts: Path, rest: dict[str, Any]) -> Path:
        try:
            place = Path(f"parts-{step:012d}")
            digests = {each.name: _digest(each) for each in sorted(parts.iterdir())}
            with _as_os_error():
                self._files.makedirs(self._at(place), exist_ok=True)
                for each in parts.iterdir():
                    self._files.put_file(str(each), f"{self._at(place)}/{each.name}")
            return self.save(step, {**rest, "parts": digests, "parts_folder": place.name})
        finally:
            shutil.rmtree(parts, ignore_errors=True)

    def parts_of(self, content: dict[str, Any]) -> Path | None:
        """A copy of the parts on this machine."""
        name = content.get("parts_folder")
        if name is None:
            return None
        if self._fetched is None:
            self._fetched = Path(mkdtemp(prefix="treadle-parts-"))
            atexit.register(shutil.rmtree, self._fetched, ignore_errors=True)
        place: Path = self._fetched / name
        if not place.exists():
            place.mkdir()
            with _as_os_error():
                for each in content["parts"]:
                    self._files.get_file(f"{self._at(Path(name))}/{each}", str(place / each))
        return place

    def _read(self, path: Path) -> Any:  # noqa: ANN401
        with _as_os_error():
            data = self._files.cat_file(self._at(path))
        return parsed(data)

    def _paths(self) -> list[Path]:
        with _as_os_error():
            self._files.invalidate_cache()
            if not self._files.isdir(self._root):
                return []
            names = (Path(path).name for path in self._files.ls(self._root, detail=False))
            return sorted((Path(name) for name in names if NAME.match(name)), reverse=True)

    def _at(self, path: Path) -> str:
        return f"{self._root.rstrip('/')}/{path}"


def _digest(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as content:
        while data := content.read(CHUNK_BYTES):
            found.update(data)
    return found.hexdigest()


@contextmanager
def _as_os_error() -> Iterator[None]:
    """What libraries of clouds raise has classes of its own."""
    try:
        yield
    except (OSError, InvalidInputError):
        raise
    except Exception as error:  # a store that fails costs the checkpoint, not the training
        raise OSError(f"{type(error).__name__}: {error}") from error
