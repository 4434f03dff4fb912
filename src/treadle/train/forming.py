"""Process groups of gloo that can be given up while they are formed.

The constructor of torch's group waits for each peer until its timeout: for its address, and then
for its connection. Nothing can end that wait from outside (torch 2.13). So it runs in a thread of
its own. If the group is cut, the thread is left to its timeout, and the caller goes on at once:
nothing that torch keeps for the whole process is changed before the constructor has returned.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from treadle.core.errors import TreadleError
from treadle.train.stop import end_without_teardown

LOOK_EVERY_S = 0.002


class BrokenGroupError(TreadleError):
    """A collective failed: a peer ended, hangs, or the network does."""


@contextmanager
def cuttable(is_cut: Callable[[], bool]) -> Iterator[None]:
    """Groups of gloo that torch forms in this block raise BrokenGroupError once it is cut."""
    torch_groups: Any = dist.distributed_c10d
    usual: Any = getattr(torch_groups, "ProcessGroupGloo", None)
    if usual is None:  # A torch without gloo, or with another name for it: the timeout has to do.
        yield
        return

    class Cuttable(usual):  # type: ignore[misc]
        """Torch makes it, and asks whether it is what it made: so it is a class."""

        def __init__(self, *words: Any, **options: Any) -> None:  # noqa: ANN401
            call(lambda: usual.__init__(self, *words, **options), is_cut)

    torch_groups.ProcessGroupGloo = Cuttable
    try:
        yield
    finally:
        torch_groups.ProcessGroupGloo = usual


def call(form: Callable[[], None], is_cut: Callable[[], bool]) -> None:
    """Call it in a thread, and wait for it; raises BrokenGroupError once it is cut."""
    errors: list[Exception] = []
    done = threading.Event()

    def run() -> None:
        try:
            form()
        except Exception as error:  # the caller raises it
            errors.append(error)
        done.set()

    if is_cut():
        raise BrokenGroupError("a member was lost before the group was formed")
    threading.Thread(target=run, name="treadle-forming", daemon=True).start()
    while not done.wait(LOOK_EVERY_S):
        if is_cut():
            # A thread that returns from torch during the teardown ends the process with SIGABRT.
            end_without_teardown()
            raise BrokenGroupError("a member was lost while the group was formed")
    if errors:
        raise errors[0]


def forget_names() -> None:
    """After a failed start: torch counts it in the next group's name, by which its ranks meet.

    A newcomer has not counted it, and would wait under another name.
    """
    if not dist.is_initialized():
        dist.distributed_c10d._world.group_count = 0
