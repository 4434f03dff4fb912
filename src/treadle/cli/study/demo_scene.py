"""The stage of `treadle demo` and `profile`: a daemon of its own, lines with the time in front."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from treadle.cli.live.daemon_start import start_daemon
from treadle.cli.live.down import until_gone
from treadle.cli.live.session import Session
from treadle.core.errors import EngineError
from treadle.engines.node.gpus import NvmlGpus

LOOK_S = 0.5


class Scene(NamedTuple):
    here: Session
    begun_s: float
    every_s: float = LOOK_S  # how often to look

    @property
    def passed_s(self) -> float:
        return self.here.stopwatch() - self.begun_s

    def say(self, text: str) -> None:
        click.echo(f"{self.passed_s:6.1f} s  {text}")


def gpu_count() -> int:
    """How many GPUs this machine has."""
    try:
        return len(NvmlGpus().uuids)
    except EngineError:
        return 0


@contextmanager
def own_daemon(words: Sequence[str]) -> Iterator[Scene]:
    """A daemon in a temporary folder, with these options of `treadle up`."""
    with tempfile.TemporaryDirectory(prefix="treadle-demo-", ignore_cleanup_errors=True) as folder:
        os.environ["TREADLE_SOCKET"] = str(Path(folder) / "s")
        os.environ.pop("TREADLE_URL", None)
        here = Session()  # Not the command's: each part has a daemon of its own.
        start_daemon(here, [*words, "--state", folder], state=Path(folder))
        try:
            yield Scene(here, here.stopwatch())
        finally:
            pid = here.client.shut_down("cancel").pid
            # Its folder is removed next: not before it and its jobs have ended.
            until_gone(here, pid)
            here.close()
