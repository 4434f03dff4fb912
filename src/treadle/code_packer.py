"""Packs a folder of code as a tar file, as the folder's user: a program of the standard library.

    python -I -S code_packer.py FOLDER BYTES_MAX

It prints one line, which is empty or says why not, and then the archive. In a git work tree these
are the files that git does not ignore, committed or not; elsewhere all. Caches, environments and
links that lead out of the folder are left out.
"""

import os
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

LEFT_OUT = frozenset({".git", "__pycache__", ".venv", "venv", "node_modules"})
FILES_MAX = 20_000
MOMENT = 946_684_800  # of all files, so that the name follows the content: the year 2000
NAMED_MAX = 3
_MARK = "pyvenv.cfg"  # of a virtual environment
# git runs nothing that a repository could name.
_GIT = ("-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null")
_LIST = ("ls-files", "--cached", "--others", "--exclude-standard", "-z")


class RefusedError(Exception):
    """The folder cannot be packed."""


def main() -> None:
    folder, bytes_max = Path(sys.argv[1]), int(sys.argv[2])
    sys.stdout.flush()
    with TemporaryFile() as draft, os.fdopen(1, "wb") as out:
        try:
            pack(folder, bytes_max, draft)
        except (OSError, RefusedError) as error:
            why = f"{error.filename} cannot be read" if isinstance(error, OSError) else str(error)
            out.write(why.replace("\n", " ").encode(errors="replace") + b"\n")
        else:
            out.write(b"\n")
            draft.seek(0)
            shutil.copyfileobj(draft, out, 1 << 20)


def pack(folder: Path, bytes_max: int, out: IO[bytes]) -> None:
    """Write the archive; the same content gives the same bytes."""
    found = _found(folder)
    _check(found, bytes_max)
    left = bytes_max
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, status in found.items():
            entry = tarfile.TarInfo(name)
            entry.mtime = MOMENT
            path = folder / name
            if stat.S_ISLNK(status.st_mode):
                entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
                archive.addfile(entry)
                continue
            entry.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
            with path.open("rb") as file:
                content = file.read(left + 1)
            entry.size = len(content)
            left -= entry.size
            if left < 0:  # It has grown since it was listed.
                raise RefusedError("its files grow while they are packed")
            archive.addfile(entry, BytesIO(content))


def leads_out(name: str, target: str) -> bool:
    """Whether a link leads out of its folder, or might.

    Steps upwards are allowed at its beginning alone: behind the name of another link they lead
    upwards from where that one leads.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return target.startswith("/") or up > name.count("/") or ".." in parts[up:]


def _found(folder: Path) -> dict[str, os.stat_result]:
    """Files and links by their path in the folder, in order."""
    if not folder.is_dir():
        raise RefusedError("it is no folder on the daemon's machine")
    names = sorted(set(_unignored(folder)) or _walked(folder))
    environments = {name.removesuffix(_MARK) for name in names if name.endswith(f"/{_MARK}")}
    found: dict[str, os.stat_result] = {}
    for name in names:
        if not LEFT_OUT.isdisjoint(name.split("/")):
            continue
        if any(name.startswith(each) for each in environments):
            continue
        path = folder / name
        with suppress(FileNotFoundError, NotADirectoryError):  # git lists what was removed.
            status = path.lstat()
            link = stat.S_ISLNK(status.st_mode) and not leads_out(name, str(path.readlink()))
            if link or stat.S_ISREG(status.st_mode):
                found[name] = status
    return found


def _unignored(folder: Path) -> Iterator[str]:
    """What git does not ignore there; nothing outside of git."""
    command = ("git", "-C", str(folder), *_GIT, *_LIST)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        return
    for name in filter(None, done.stdout.split(b"\0") if done.returncode == 0 else ()):
        path = os.fsdecode(name).rstrip("/")
        inner = folder / path
        if inner.is_dir() and not inner.is_symlink():  # A repository in this one.
            yield from (f"{path}/{each}" for each in set(_unignored(inner)) or _walked(inner))
        else:
            yield path


def _walked(folder: Path) -> set[str]:
    """Everything below it, up to a little more than may be packed."""
    found = set[str]()
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        here = Path(above)
        links = [name for name in folders if (here / name).is_symlink()]
        found |= {str((here / name).relative_to(folder)) for name in (*files, *links)}
        if len(found) > 2 * FILES_MAX:
            break
    return found


def _check(found: dict[str, os.stat_result], bytes_max: int) -> None:
    total = sum(status.st_size for status in found.values())
    if total <= bytes_max and len(found) <= FILES_MAX:
        return
    tops = dict[str, list[int]]()
    for name, status in found.items():
        tops.setdefault(name.partition("/")[0], []).append(status.st_size)
    many = total <= bytes_max
    first = sorted(tops, key=lambda top: -(len(tops[top]) if many else sum(tops[top])))
    named = (f"{top} ({_said(sum(tops[top]), len(tops[top]))})" for top in first[:NAMED_MAX])
    raise RefusedError(
        f"it holds {_said(total, len(found))}, and at most {_said(bytes_max, FILES_MAX)} are "
        f"packed; most is in {', '.join(named)}; leave that out by .gitignore in a git repository, "
        "or put the folder where all nodes see it"
    )


def _said(amount: int, files: int) -> str:
    units = ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "bytes"))
    power, unit = next(each for each in units if amount >> each[0] or not each[0])
    return f"{amount / (1 << power):.3g} {unit} in {files:,} file{'s' * (files != 1)}"


if __name__ == "__main__":
    main()
