"""The process group: the only file that knows how torch forms, breaks and leaves one.

Ranks are renumbered at each change, so a group lives for one version. A group of one needs no
torch.distributed at all. When torch can reconfigure a group in place, or torchft is there, this
class is what has to change.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import FileStore

from treadle.core.errors import TreadleError
from treadle.train.connections import Connections

JOIN_S_MAX = 20.0  # a peer that dies while a group is formed is waited for that long
POLL_S = 50e-6
Abandon = Callable[[], bool]  # whether a wait in flight has to be given up


def _spare_survivors() -> None:
    """Before a group with NCCL whose members may be lost.

    Its watchdog ends the process once a collective has failed or took too long. Here survivors
    poll, give up by our own timeout, and abort the communicator (`Group.abort`): 0 leaves that to
    us. The heartbeat monitor would end a process whose abort takes long.
    """
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    os.environ.setdefault("TORCH_NCCL_ENABLE_MONITORING", "0")


class BrokenGroupError(TreadleError):
    """A collective failed: a peer ended, hangs, or the network does."""


class Group:
    """The ranks that train together now."""

    def __init__(self, device: torch.device, timeout_s: float) -> None:
        self.device = device
        self.rank = 0
        self.size = 1
        self._timeout = timedelta(seconds=timeout_s)
        self._joined = False
        self._connections = Connections()
        self._is_cut = False

    @property
    def backend(self) -> str:
        chosen = os.environ.get("TREADLE_BACKEND")
        return chosen or ("nccl" if self.device.type == "cuda" else "gloo")

    def join(self, rendezvous: str, rank: int, size: int) -> None:
        """Form a group with others; the old one must have been left.

        rendezvous: "file:PATH" on one machine, "tcp:HOST:PORT", or "env:" under torchrun.
        """
        self.rank, self.size = rank, size
        self._is_cut = False
        if size == 1:
            return
        kind, _, where = rendezvous.partition(":")
        self._connections.begin()
        join_s = min(timedelta(seconds=JOIN_S_MAX), self._timeout)
        arguments: dict[str, Any] = {"backend": self.backend, "timeout": join_s}
        if self.backend == "nccl" and kind != "env":
            _spare_survivors()
        if kind == "file":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            arguments |= {"store": FileStore(where, size), "rank": rank, "world_size": size}
        elif kind == "tcp":
            arguments |= {"init_method": f"tcp://{where}", "rank": rank, "world_size": size}
        else:
            arguments |= {"timeout": self._timeout}
        try:
            dist.init_process_group(**arguments)
            self._joined = True
            self.cover_parts()
        except (RuntimeError, ValueError, BrokenGroupError) as error:
            self.abort()
            raise BrokenGroupError(f"the group could not be formed: {error}") from None
        if self._is_cut:
            self.abort()
            raise BrokenGroupError("a member was lost while the group was formed")

    def cover_parts(self) -> None:
        """After groups within this one were made: they are cut with it, and wait as long.

        All ranks call it.
        """
        if not self._joined:
            return
        if self.backend == "gloo":
            try:
                self._connections.note(self.rank, self.size)
            except (RuntimeError, ValueError) as error:
                raise BrokenGroupError(str(error)) from None
        # With NCCL our own timeout comes first: `finish` polls, and its caller aborts.
        limit = self._timeout * (2 if self.backend == "nccl" else 1)
        for part in list(dist.distributed_c10d._world.pg_map):
            dist.distributed_c10d._set_pg_timeout(limit, part)

    def is_failure(self, error: BaseException) -> bool:
        """Whether an error that came through other code is one of a collective."""
        words = str(error).lower()
        said = any(word in words for word in ("gloo", "nccl", "connection closed", "socket"))
        return self._is_cut or said or isinstance(error, dist.DistError)

    def cut(self) -> None:
        """Make collectives in flight fail, here and on the peers; any thread may call it.

        Gloo has no way to do so: its `abort` leaves a wait until its timeout (torch 2.13). But a
        connection that is shut down fails on both sides at once. With NCCL there is nothing to
        do here: a wait for it is polled, see `finish`, and `abort` ends its communicators.
        """
        self._is_cut = True
        self._connections.shut()

    def leave(self) -> None:
        """After the last collective of all: nothing is in flight."""
        if self._joined or dist.is_initialized():
            self._joined = False
            self._connections.forget()
            with suppress(RuntimeError, ValueError, AssertionError):
                dist.destroy_process_group()

    def abort(self) -> None:
        """Drop the group with all that is in flight; peers that wait for us fail at once."""
        self.cut()
        self._connections.forget()
        if self._joined or dist.is_initialized():
            self._joined = False
            with suppress(RuntimeError, ValueError, AssertionError, AttributeError):
                dist.distributed_c10d._abort_process_group()
            if dist.is_initialized():
                with suppress(RuntimeError, ValueError, AssertionError):
                    dist.destroy_process_group()

    def start_sum(self, tensor: Tensor) -> dist.Work:
        """Begin to add a tensor up over all ranks, in place."""
        try:
            work: dist.Work = dist.all_reduce(tensor, async_op=True)
        except (RuntimeError, ValueError) as error:
            raise BrokenGroupError(str(error)) from None
        return work

    def finish(self, works: list[dist.Work], *, abandon: Abandon | None = None) -> None:
        """Wait for sums that were begun.

        On a GPU `wait` only orders the stream. A step must not be applied before its gradients
        are known to be good, and an NCCL kernel that waits for a dead peer never ends: so the
        stream is polled, and the wait is abandoned when an order says so, or after the timeout.
        """
        try:
            for work in works:
                work.wait()
        except RuntimeError as error:
            raise BrokenGroupError(str(error)) from None
        if abandon is None or self.device.type != "cuda":
            return
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record(torch.cuda.current_stream(self.device))
        until = monotonic() + self._timeout.total_seconds()
        while not done.query():  # type: ignore[no-untyped-call]
            if abandon() or self._is_cut:
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
        self.finish([work], abandon=lambda: self._is_cut)
