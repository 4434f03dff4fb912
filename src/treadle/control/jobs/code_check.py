"""Notices that the code of a job is not what was submitted, each time the job is launched.

A job runs from its working directory, and that may be edited while the job waits. What its record
says of the code is the state at submission. So the files of the command, the commit and the
uncommitted changes are compared at each launch, as the job's owner, in a thread of its own and with
a deadline: the folder may lie on a disk that does not answer. Nothing waits for a comparison. One
that is done after its attempt has ended is a fact about an attempt that has ended.
"""

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from treadle.control.jobs.records import JobRecord
from treadle.core.job import JobId
from treadle.core.launch import AttemptId
from treadle.journal.facts import CodeChanged
from treadle.repository import GitState, User, git_state, hashes
from treadle.wire.jobs import Code

TIME_LIMIT_S = 2.0  # of each program that is asked
DEADLINE_S = 5.0  # of a whole comparison
AT_ONCE_MAX = 4
STUCK_MAX = 16  # threads that a dead disk may hold
NOT_CHECKED = "whether its code changed after submission could not be checked"
_SHOWN = 12  # digits of a hash


class CodeCheck:
    """Compares code at each launch, and says what changed."""

    def __init__(self, tell: Callable[[CodeChanged], None]) -> None:
        self._tell = tell
        self._tasks: dict[AttemptId, asyncio.Task[tuple[str, ...]]] = {}
        self._late: set[asyncio.Task[tuple[str, ...]]] = set()  # their attempts have ended
        self._threads: set[threading.Thread] = set()
        self._room = asyncio.Semaphore(AT_ONCE_MAX)

    def begin(self, record: JobRecord, attempt: int) -> None:
        """Compare for an attempt that is about to be launched."""
        code = record.code
        if code is None or not (code.commit or code.files):
            return
        identity = AttemptId(record.id, attempt)
        if identity in self._tasks and not self._tasks[identity].done():
            return  # It is asked again for the same launch; a number may be given again later.
        user = None
        if os.geteuid() == 0:
            if record.uid is None or record.gid is None:
                return
            user = User(record.uid, record.gid)
        check = self._check(identity, code, record.workdir, record.diff, user)
        self._tasks[identity] = asyncio.get_running_loop().create_task(check)

    def changes(self, job: JobId, attempt: int) -> tuple[str, ...]:
        """What changed, of an attempt that has ended; empty if that is not known yet."""
        task = self._tasks.pop(AttemptId(job, attempt), None)
        if task is None:
            return ()
        if task.done():
            return task.result()
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return ()

    async def _check(
        self, identity: AttemptId, code: Code, workdir: str, diff: str, user: User | None
    ) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(DEADLINE_S), self._room:
                found = await self._in_thread(lambda: _compare(code, workdir, diff, user))
        except TimeoutError:
            found = (NOT_CHECKED,)
        if found:
            self._tell(CodeChanged(identity.job, identity.number, found))
        return found

    async def _in_thread(self, work: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """In a thread that nothing waits for at exit: it may never come back from a dead disk."""
        if len(self._threads) >= STUCK_MAX:
            return (NOT_CHECKED,)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[str, ...]] = loop.create_future()

        def settle(thread: threading.Thread, found: tuple[str, ...]) -> None:
            self._threads.discard(thread)
            if not done.done():
                done.set_result(found)

        def run() -> None:
            try:
                found = work()
            except Exception:  # Whatever a strange folder does, the job runs on.
                found = (NOT_CHECKED,)
            with suppress(RuntimeError):  # The loop is closed by now.
                loop.call_soon_threadsafe(settle, threading.current_thread(), found)

        thread = threading.Thread(target=run, name="code-check", daemon=True)
        self._threads.add(thread)
        thread.start()
        return await done


def _compare(code: Code, workdir: str, diff: str, user: User | None) -> tuple[str, ...]:
    found: list[str] = []
    if code.files:
        now = hashes(list(code.files), time_limit_s=TIME_LIMIT_S, user=user)
        if now is None:
            return (NOT_CHECKED,)
        if not now and not os.path.isdir(workdir):  # noqa: PTH112
            return ()  # It is not on this machine; a node of its cluster may have it.
        found += files_changed(code, workdir, now)
    if code.commit:
        state = git_state(workdir, time_limit_s=TIME_LIMIT_S, user=user)
        if state is None:
            return (*found, NOT_CHECKED)
        found += git_changed(code, diff, state)
    return tuple(found)


def files_changed(code: Code, workdir: str, now: dict[str, str]) -> list[str]:
    """A sentence for each file of the command that is not as it was submitted."""
    found = []
    for path, before in code.files.items():
        name = os.path.relpath(path, workdir) if path.startswith(f"{workdir}/") else path
        if path not in now:
            found.append(f"{name} is gone or cannot be read")
        elif now[path] != before:
            found.append(
                f"{name} changed after submission: it ran as of sha256 {now[path][:_SHOWN]}, "
                f"submitted as {before[:_SHOWN]}"
            )
    return found


def git_changed(code: Code, diff: str, now: GitState) -> list[str]:
    """A sentence if the commit or the uncommitted changes are others than at submission.

    diff: the name of the recorded changes, which is their hash.
    """
    if now.commit != code.commit:
        ran, submitted = now.commit[:_SHOWN], code.commit[:_SHOWN]
        return [f"the commit changed after submission: it ran at {ran}, submitted at {submitted}"]
    if now.diff is None:
        return [NOT_CHECKED]
    if code.cut or now.cut:
        return []  # Not recorded as a whole, or not known.
    text = hashlib.sha256(now.diff.encode("utf-8", "surrogateescape")).hexdigest()
    if (text if now.diff else "") == diff:
        return []
    if not code.dirty:
        return ["tracked files were changed after submission, when there were no changes"]
    return ["the uncommitted changes are not those of the submission"]
