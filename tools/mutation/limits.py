"""What a process that runs a mutant may use, so that a mutant that hangs or grows is noticed."""

import resource
import signal

# How pytest runs here: nothing is captured, cached or spread over processes.
QUIET = (
    *("-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov"),
    *("-p", "no:schemathesis", "-p", "no:anyio", "--hypothesis-profile=mutants"),
)
MEMORY_BYTES_MAX = 3 * 2**30


def limit(usual_s: float) -> None:
    """End the process when the test that begins has used far more CPU time than it usually does."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, 2.0 + 10.0 * usual_s)


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
