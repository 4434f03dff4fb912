"""`treadle shell`: a shell in this terminal, on devices that a job holds for it.

The shell is the user's own process, so it has their terminal and their permissions. The job only
holds the devices: when the shell exits, the job ends; when the job ends first (its time limit, a
cancel), the shell is told and gets SIGHUP.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from treadle.cli.live.exit_codes import FAILED, NOT_ENDED, end_sentence, exit_code, never_text
from treadle.cli.live.job_options import job_options
from treadle.cli.live.session import Session, note, remote, session
from treadle.cli.live.shell_hold import ALIVE, ENVIRONMENT, HELD
from treadle.cli.live.submit import SubmitCommand, job_request, send
from treadle.cli.live.wait import until_ended
from treadle.cli.show.wording import plain
from treadle.core.errors import InvalidInputError
from treadle.wire.problems import ConflictError, RequestError

_LOOK_S = 0.2
_GRACE_S = 5.0  # of a shell whose devices are gone


@click.command(cls=SubmitCommand, options_metavar="[OPTIONS]")
@job_options
@click.pass_context
def shell(context: click.Context, /, **_options: Any) -> int:
    """Open a shell (or the command after --) in this terminal, on devices of your own.

    It waits for its turn like any job. The devices are free again when the shell exits. Give
    --time-limit to be asked to leave at some point.

    \b
    treadle shell -d 1 -t 2h
    """
    here = session()
    if remote() or here.client.status().engine != "local":
        raise InvalidInputError(
            "treadle shell runs in this terminal, so it needs a daemon that runs jobs on this "
            "machine alone; elsewhere use treadle run"
        )
    wanted = context.meta.get("treadle.command") or (os.environ.get("SHELL") or "/bin/bash",)
    with _meeting_place() as (folder, held):
        hold = (sys.executable, "-P", "-m", "treadle.cli.live.shell_hold", str(folder))
        context.meta["treadle.command"] = hold
        request = job_request(context, None, None, git=False)
        if request.array:
            raise InvalidInputError("treadle shell takes no --array")
        given = replace(request, ranks="one", resumable=False, code=None, retries=0)
        named = replace(given, name=request.name or "shell")
        identity = send(here, named).id
        with contextlib.ExitStack() as unfinished:
            unfinished.callback(_cancel, here, identity)
            code = _inside(here, identity, folder, held, wanted, request.workdir)
            unfinished.pop_all()  # The job ends by itself when the pipes are closed.
        return code


def _cancel(here: Session, identity: str) -> None:
    with contextlib.suppress(ConflictError):  # It has ended by itself.
        here.client.cancel(identity)


@contextlib.contextmanager
def _meeting_place() -> Iterator[tuple[Path, int]]:
    """A folder with two pipes, for this user only, and the pipe that the job holds open.

    Both are open before the job runs, so that neither side ever waits for the other to open them.
    """
    home = os.environ.get("XDG_RUNTIME_DIR")
    base = home if home and os.access(home, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="treadle-shell-", dir=base))
    with contextlib.ExitStack() as left:
        left.callback(shutil.rmtree, folder, ignore_errors=True)
        for name in (ALIVE, HELD):
            os.mkfifo(folder / name, 0o600)
        held = os.open(folder / HELD, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        left.callback(os.close, held)
        left.callback(os.close, os.open(folder / ALIVE, os.O_RDWR | os.O_CLOEXEC))
        yield folder, held


def _inside(
    here: Session, identity: str, folder: Path, held: int, wanted: tuple[str, ...], workdir: str
) -> int:
    """Wait for the devices, then run the shell until it or the job ends."""
    env = _await_devices(here, identity, folder)
    if env is None:
        view = here.client.job(identity).job
        note(end_sentence(view))
        return exit_code(view) or FAILED
    devices = ", ".join(here.client.job(identity).job.devices)
    note(f"job {plain(identity)} holds {plain(devices)}; exit ends it")
    return _attend(here, identity, wanted, {**os.environ, **env}, workdir, held)


def _await_devices(here: Session, identity: str, folder: Path) -> Mapping[str, str] | None:
    """The allocation's environment, once the job runs; None if it ended before."""
    said = ""
    while not (folder / ENVIRONMENT).exists():
        view = here.client.job(identity).job
        if view.state.ended:
            return None
        if view.because and not view.devices and view.because != said:
            said = view.because
            note(f"job {plain(identity)} waits: {plain(said)}")
            with contextlib.suppress(RequestError):
                answer = here.client.why(identity)
                if answer.never:
                    raise InvalidInputError(f"job {plain(identity)} {never_text(answer)}")
        here.pause(_LOOK_S)
    found: dict[str, str] = json.loads((folder / ENVIRONMENT).read_text())
    return found


def _attend(
    here: Session,
    identity: str,
    wanted: tuple[str, ...],
    env: Mapping[str, str],
    workdir: str,
    held: int,
) -> int:
    """Run the shell in the foreground; end it if the job ends first."""
    try:
        process = subprocess.Popen(wanted, env=env, cwd=workdir)
    except OSError as error:
        raise InvalidInputError(f"{wanted[0]} cannot be run: {error.strerror}") from None
    # Ctrl-C and Ctrl-\ are meant for what runs in the shell.
    before = {name: signal.signal(name, signal.SIG_IGN) for name in (signal.SIGINT, signal.SIGQUIT)}
    try:
        while process.poll() is None:
            gone, _, _ = select.select([held], [], [], _LOOK_S)
            if gone and process.poll() is None:
                _leave(here, identity, process)
                process.wait()
                ended = until_ended(here, [here.client.job(identity).job], limit_s=_GRACE_S)
                return ended.code or NOT_ENDED
        code = process.wait()
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    return code if code >= 0 else 128 - code


def _leave(here: Session, identity: str, process: "subprocess.Popen[bytes]") -> None:
    """The devices belong to others from now on."""
    view = here.client.job(identity).job
    why = end_sentence(view) if view.state.ended else f"job {plain(identity)} is being ended"
    note(f"{why}; its devices are no longer yours, and the shell is ended")
    process.send_signal(signal.SIGHUP)
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
