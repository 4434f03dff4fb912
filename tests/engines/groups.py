"""Groups of processes for tests: each kind that this machine has, and none left behind."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from treadle.engines.node.cgroup import (
    Cgroups,
    Containment,
    ControllerCgroups,
    UnifiedCgroups,
    cgroups_here,
)

KINDS = ("cgroup v1", "cgroup v2", "processes only")


@contextmanager
def containment(kind: str) -> Iterator[Containment]:
    """Containment of one kind; the test is skipped by name where this machine has none."""
    if kind == "cgroup v1":
        here = cgroups_here()
        if not isinstance(here, ControllerCgroups):
            pytest.skip("needs root and the hierarchies of cgroup v1")
        yield Containment(here)
    elif kind == "cgroup v2":
        with unified() as cgroups:
            yield Containment(cgroups)
    else:
        yield Containment(None)


@contextmanager
def unified() -> Iterator[Cgroups]:
    """Groups below a cgroup v2 that is ours for the time of a test."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    mount = next((words[1] for words in mounts if words[2] == "cgroup2"), None)
    if mount is None or not os.access(mount, os.W_OK):
        pytest.skip("needs a cgroup v2 that can be written to")
    folder = Path(mount, f"treadle-test-{os.getpid()}")
    folder.mkdir()
    try:
        yield UnifiedCgroups(folder)
    finally:
        folder.rmdir()  # It fails if a test left a group behind.
