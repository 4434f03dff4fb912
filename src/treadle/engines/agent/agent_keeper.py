"""Keeps the agent of a node running: it is started again when it ends or hangs, and jobs go on.

    python -m treadle.engines.agent.agent_keeper FOLDER MODULE

The agent is a child of this process, `python -m MODULE FOLDER DESCRIPTOR`, and writes to a pipe as
long as its event loop runs. If it ends with 0, it was told to, and so does its keeper. There is one
for a folder, apart from the process that starts it. Only the standard library is imported here.
"""

import fcntl
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = "keeper.lock"
BEAT_EVERY_S, HUNG_BEATS = 1.0, 15


def keep(words: Sequence[str], begun: Callable[[int], object] = lambda _: None) -> None:
    """Until the agent has ended by itself: `python WORD... DESCRIPTOR`.

    begun: told the process of each agent.
    """
    while True:
        ours, theirs = os.pipe()
        command = [sys.executable, *words, str(theirs)]
        process = subprocess.Popen(command, pass_fds=(theirs,), start_new_session=True)
        os.close(theirs)
        begun(process.pid)
        code = _watch(process, ours)
        os.close(ours)
        if code == 0:
            return
        sys.stderr.write(f"the agent ended with {code} and is started again; jobs go on\n")
        sys.stderr.flush()


def _watch(process: "subprocess.Popen[bytes]", beats: int) -> int:
    """How the agent has ended; one that hangs is killed. Orphans are taken in."""
    missed = 0
    while True:
        readable, _, _ = select.select([beats], [], [], BEAT_EVERY_S)
        heard = bool(readable) and bool(os.read(beats, 64))
        missed = 0 if heard else missed + 1
        if readable and not heard:
            threading.Event().wait(BEAT_EVERY_S)  # It has closed its end, and is about to go.
        if missed == 4 * HUNG_BEATS or (missed == HUNG_BEATS and process.poll() is None):
            process.kill()
        if process.returncode is not None:
            return process.returncode
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if ended[0] == process.pid:
                    process.returncode = os.waitstatus_to_exitcode(ended[1])
                    return process.returncode


@contextmanager
def _keeping(folder: Path) -> Iterator[bool]:
    """Whether the folder has no keeper but this one."""
    with (folder / LOCK).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def is_kept(folder: Path) -> bool:
    with suppress(FileNotFoundError), _keeping(folder) as free:
        return not free
    return False


def be_nice_no_more() -> None:
    """Ray starts its workers with a niceness of 15; root can undo it, for each thread."""
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208
            os.setpriority(os.PRIO_PROCESS, int(thread), 0)


def main() -> None:
    folder, module = sys.argv[1:]
    if os.fork():
        os._exit(0)  # Ray kills the children that an actor leaves, and these are none.
    os.setsid()
    be_nice_no_more()
    with _keeping(Path(folder)) as alone:
        if alone:
            keep(["-m", module, folder])


if __name__ == "__main__":
    main()
