"""A small disk, for real, that can be filled: a tmpfs, which only root can mount."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

FILE = "filled"


@contextmanager
def small_disk(place: Path, size: str = "8m") -> Iterator[Path]:
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "small", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk, where mounts are allowed")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> None:
    """Leave no block."""
    with (disk / FILE).open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 65536)
    with (disk / FILE).open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 512)


def clear(disk: Path) -> None:
    (disk / FILE).unlink()


def remount(disk: Path, how: str) -> None:
    """how: "ro" or "rw"."""
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)
