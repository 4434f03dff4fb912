"""The process group: the only file that knows how torch forms, breaks and leaves one.

Ranks are renumbered at each change, so a group lives for one version. A group of one needs no
torch.distributed at all. When torch can reconfigure a group in place, or torchft is there, this
class is what has to change.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from treadle.train.connections import Connections
from treadle.train.forming import LOOK_EVERY_S, BrokenGroupError, cuttable, forget_names
from treadle.train.meeting import store_at
from treadle.train.stop import STOP, end_without_teardown

__all__ = ["BrokenGroupError", "Group"]
JOIN_S_MAX = 20.0  # for all peers to be there: one that hangs is waited for that long
POLL_S = 50e-6
LOOPBACK = "127.0.0.1:"
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
STOP_FOLLOWS_S = 5.0


def _spare_survivors() -> None:
    """Before a group with NCCL whose members may be lost.

    Its watchdog ends the process once a collective has failed or took too long. Here survivors
    poll, give up by our own timeout, and abort the communicator (`Group.abort`): 0 leaves that to
    us. The heartbeat monitor would end a process whose abort takes long.
    """
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    os.environ.setdefault("TORCH_NCCL_ENABLE_MONITORING", "0")


class Group:
    """The ranks that train together now.

    To cut a group is to give up all that is in flight in it, at once. A cut names the first version
    that it spares. So it counts for a group that is being formed, and for one whose forming has not
    begun yet, and it never hurts a newer one.
    """

    def __init__(self, device: torch.device, timeout_s: float) -> None:
        self.device = device
        self.rank = 0
        self.size = 1
        self._timeout = timedelta(seconds=timeout_s)
        self._joined = False
        self._own_interface = GLOO_INTERFACE in os.environ  # its user, or the agent, chose one
        self.version = 0  # of the group that stands or is being formed
        self._watched = False  # a coordinator cuts it if a member is lost
        self._connections = Connections()
        self._cutting = threading.Lock()
        self._spared = 0  # groups of older versions are cut

    @property
    def backend(self) -> str:
        chosen = os.environ.get("TREADLE_BACKEND")
        return chosen or ("nccl" if self.device.type == "cuda" else "gloo")

    @property
    def is_cut(self) -> bool:
        """Whether what is in flight has to be given up."""
        return self.version < self._spared

    def meet(self, rank: int, size: int) -> None:
        """Form the only group of an attempt, under torchrun or as a launcher like it says."""
        with STOP.ends_at_once():
            try:
                self.join("env:", rank, size, version=0)
            except BrokenGroupError:
                # Ranks of a job that is being stopped end one after another, and with them the
                # store by which they meet: the signal for this one may be on its way.
                sleep(STOP_FOLLOWS_S)
                raise

    def join(self, rendezvous: str, rank: int, size: int, *, version: int) -> None:
        """Form a group with others; the old one must have been left.

        rendezvous: "tcp:HOST:PORT/NAME", or "env:" under torchrun.
        """
        self.rank, self.size, self.version = rank, size, version
        if size == 1:
            return
        kind, _, where = rendezvous.partition(":")
        self._watched = kind != "env"
        self._connections.begin()
        join_s = min(timedelta(seconds=JOIN_S_MAX), self._timeout)
        arguments: dict[str, Any] = {"backend": self.backend, "timeout": join_s}
        if self.backend == "nccl" and kind != "env":
            _spare_survivors()
        if kind == "env":
            arguments["timeout"] = self._timeout
        if kind == "tcp" and not self._own_interface:
            named = "lo" if where.startswith(LOOPBACK) else os.environ.get("TREADLE_INTERFACE")
            os.environ |= {GLOO_INTERFACE: named} if named else {}
        try:
            if kind == "tcp":
                store = store_at(where, join_s, lambda: self.is_cut)
                arguments |= {"store": store, "rank": rank, "world_size": size}
            with self.forming():
                dist.init_process_group(**arguments)
            self._joined = True
            self.cover_parts()
        except (RuntimeError, ValueError, BrokenGroupError) as error:
            self.abort()
            raise BrokenGroupError(f"the group could not be formed: {error}") from None

    @contextmanager
    def forming(self) -> Iterator[None]:
        """Around what forms this group, or groups within it."""
        with cuttable(lambda: self.is_cut):
            yield

    def cover_parts(self) -> None:
        """After groups within this one were made: they are cut with it, and wait as long.

        All ranks call it.
        """
        if not self._joined:
            return
        if self.backend == "gloo":
            try:
                self._connections.note(self.rank, self.size, self._wait_for)
            except (RuntimeError, ValueError) as error:
                raise BrokenGroupError(str(error)) from None
        # With NCCL our own timeout comes first: `finish` polls, and its caller aborts.
        limit = self._timeout * (2 if self.backend == "nccl" else 1)
        for part in list(dist.distributed_c10d._world.pg_map):
            dist.distributed_c10d._set_pg_timeout(limit, part)

    def _wait_for(self, there: Callable[[], bool]) -> None:
        """Until all members have done their part of the forming."""
        limit_s = min(JOIN_S_MAX, self._timeout.total_seconds())
        until = monotonic() + limit_s
        while not there():
            if self.is_cut:
                raise BrokenGroupError("a member was lost while the group was formed")
            if monotonic() > until:
                raise BrokenGroupError(f"a member did not form the group within {limit_s:g} s")
            sleep(LOOK_EVERY_S)

    def is_failure(self, error: BaseException) -> bool:
        """Whether an error that came through other code is one of a collective."""
        words = str(error).lower()
        said = any(word in words for word in ("gloo", "nccl", "connection closed", "socket"))
        return self.is_cut or said or isinstance(error, dist.DistError)

    def cut(self, spared: int | None = None) -> None:
        """Make all that is in flight fail, here and on the peers; any thread may call it.

        spared: the first version that goes on; by default the one after this group's.

        Gloo has no way to do so: its `abort` leaves a wait until its timeout (torch 2.13). But a
        connection that is shut down fails on both sides at once. With NCCL there is nothing to
        do here: a wait for it is polled, see `finish`, and `abort` ends its communicators.
        """
        with self._cutting:
            self._spared = max(self._spared, self.version + 1 if spared is None else spared)
        if self.is_cut:
            self._connections.shut()

    def leave(self) -> None:
        """After the last collective of all: nothing is in flight."""
        if self._joined or dist.is_initialized():
            self._joined = False
            self._connections.forget()
            with suppress(RuntimeError, ValueError, AssertionError):
                dist.destroy_process_group()

    def abort(self) -> None:
        """Drop the group with all that is in flight; peers that wait for us fail at once.

        Threads of gloo may be left, which wait for each other at the interpreter's teardown.
        """
        self.cut()
        self._connections.forget()
        if self._joined or dist.is_initialized():
            self._joined = False
            end_without_teardown()
            with suppress(RuntimeError, ValueError, AssertionError, AttributeError):
                dist.distributed_c10d._abort_process_group()
            if dist.is_initialized():
                with suppress(RuntimeError, ValueError, AssertionError):
                    dist.destroy_process_group()
        forget_names()

    def start_sum(self, tensor: Tensor) -> dist.Work:
        """Begin to add a tensor up over all ranks, in place."""
        try:
            work: dist.Work = dist.all_reduce(tensor, async_op=True)
        except (RuntimeError, ValueError) as error:
            raise BrokenGroupError(str(error)) from None
        return work

    def finish(self, works: list[dist.Work]) -> None:
        """Wait for sums that were begun.

        On a GPU `wait` only orders the stream. A step must not be applied before its gradients
        are known to be good, and an NCCL kernel that waits for a dead peer never ends: so the
        stream is polled, and the wait is given up when the group is cut, or after the timeout.
        Without a coordinator NCCL's watchdog ends the process.
        """
        try:
            for work in works:
                work.wait()
        except RuntimeError as error:
            raise BrokenGroupError(str(error)) from None
        if not self._watched or self.device.type != "cuda":
            return
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record(torch.cuda.current_stream(self.device))
        until = monotonic() + self._timeout.total_seconds()
        while not done.query():  # type: ignore[no-untyped-call]
            if self.is_cut:
                raise BrokenGroupError("a member was lost during the step")
            if monotonic() > until:
                raise BrokenGroupError(f"a collective took longer than {self._timeout}")
            sleep(POLL_S)

    def broadcast(self, tensor: Tensor, source: int) -> None:
        """Until the tensor is there: on a GPU, to read it would wait for a dead peer for ever."""
        try:
            work = dist.broadcast(tensor, source, async_op=True)
        except (RuntimeError, ValueError) as error:
            raise BrokenGroupError(str(error)) from None
        self.finish([work])
