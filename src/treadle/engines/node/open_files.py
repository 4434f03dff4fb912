"""How many files a process may have open: the daemon raises its own limit, jobs keep theirs.

Programs that use `select` break on descriptors above 1,023. The soft limit is low for their sake,
so jobs are started with the limit that the daemon was started with.
"""

import resource

OPEN_FILES_MAX = 65_536  # a daemon never needs more, and some programs loop over all of them

_as_started: tuple[int, int] | None = None


def raise_limit() -> int:
    """Raise the soft limit of this process to the hard one; returns how many files it may open."""
    global _as_started  # noqa: PLW0603  (a limit of the process is the process's)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _as_started is None:
        _as_started = soft, hard
    wanted = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a container may forbid it
        return soft
    return wanted


def restore_limit(pid: int) -> None:
    """Give a child process the limit that this one was started with."""
    if _as_started is not None:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _as_started)
