"""A group that is cut: its own connections fail at once, and no others do."""

import atexit
import os
import socket
import threading
import time
from datetime import timedelta
from multiprocessing.connection import Connection

import pytest
import torch
import torch.distributed as dist

from tests.forked import context
from tests.train.meetings import Meeting
from treadle.train import stop
from treadle.train.forming import cuttable
from treadle.train.group import JOIN_S_MAX, BrokenGroupError, Group
from treadle.train.meeting import store_at

LIMIT_S = 60.0  # of a collective: longer than the test may take
TORN_DOWN = 9


def _cut(rank: int, where: str, said: Connection) -> None:
    """One of two; the first has a connection of its own, made while the state is sent."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    group = Group(torch.device("cpu"), LIMIT_S)
    group.join(f"tcp:{where}/group", rank, 2, version=1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    group.cover_parts()
    dist.barrier()  # until both have said which connections they have
    heard = "whole"
    if rank == 0:
        threading.Timer(0.05, group.cut).start()
        try:
            group.finish([group.start_sum(torch.ones(1))])
        except BrokenGroupError:
            heard = "broken"
        try:
            ours.sendall(b"still there")
        except OSError as error:
            heard = str(error)
        said.send((heard, theirs.recv(20)))
    else:
        said.recv()  # It does not come to the sum.
    os._exit(0)


def test_a_cut_fails_what_waits_for_a_peer_and_spares_other_connections() -> None:
    (heard, said), met = context.Pipe(), Meeting()
    ranks = [context.Process(target=_cut, args=(n, met.where, said), daemon=True) for n in range(2)]
    for each in ranks:
        each.start()
    assert heard.poll(LIMIT_S / 2), "the sum waits for its timeout"
    assert heard.recv() == ("broken", b"still there")
    heard.send("end")
    for each in ranks:
        each.join(30)


def test_with_nccl_the_watchdog_does_not_end_survivors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's abort of a group asks for it. Without a GPU the group itself cannot be formed."""
    if torch.cuda.is_available():
        pytest.skip("the group would wait for its second rank")
    names = ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING")
    for name in names:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setenv("TREADLE_BACKEND", "nccl")
    group = Group(torch.device("cpu"), LIMIT_S)
    met = Meeting()
    with pytest.raises(BrokenGroupError, match="could not be formed"):
        group.join(f"tcp:{met.where}/group", 0, 2, version=1)
    assert [os.environ.get(name) for name in names] == ["0", "0"]


def _forms_twice(rank: int, where: str, said: Connection) -> None:
    """One of two. The second comes to the group of version 6 only: it missed the one before."""
    group = Group(torch.device("cpu"), LIMIT_S)
    heard = "formed"
    if rank == 0:
        group.cut(6)  # It comes after the order to form 5, and before that is begun.
        try:
            group.join(f"tcp:{where}/group-5", rank, 2, version=5)
        except BrokenGroupError:
            heard = "broken"
        group.cut(5)  # It is older than the group that follows.
    group.join(f"tcp:{where}/group-6", rank, 2, version=6)
    total = torch.ones(1)
    group.finish([group.start_sum(total)])
    said.send((rank, heard, float(total)))
    os._exit(0)


def test_a_cut_counts_for_older_groups_whenever_it_comes_and_for_no_newer_one() -> None:
    (heard, said), met = context.Pipe(), Meeting()
    ranks = [
        context.Process(target=_forms_twice, args=(n, met.where, said), daemon=True)
        for n in range(2)
    ]
    for each in ranks:
        each.start()
    found = []
    for _ in ranks:
        assert heard.poll(JOIN_S_MAX / 2), "it waits for a rank that does not come"
        found.append(heard.recv())
    assert sorted(found) == [(0, "broken", 2.0), (1, "formed", 2.0)]
    for each in ranks:
        each.join(30)


def _is_forming() -> bool:
    return "treadle-forming" in [thread.name for thread in threading.enumerate()]


def _ends_while_a_group_forms(where: str) -> None:
    """As the interpreter ends: exit handlers, then its teardown. The other rank does not come."""
    atexit._clear()  # Those of the test run are not this process's.
    atexit.register(stop._end)
    group = Group(torch.device("cpu"), LIMIT_S)

    def cut_once_it_forms() -> None:
        store = store_at(f"{where}/group", timedelta(seconds=LIMIT_S))
        while not store.num_keys():
            time.sleep(0.005)
        group.cut(6)

    threading.Thread(target=cut_once_it_forms).start()
    with pytest.raises(BrokenGroupError):
        group.join(f"tcp:{where}/group", 0, 2, version=5)
    assert _is_forming()
    atexit._run_exitfuncs()
    os._exit(TORN_DOWN)


def test_a_process_that_gave_up_a_group_ends_without_the_interpreters_teardown() -> None:
    """The thread that still forms it would end the process with SIGABRT."""
    met = Meeting()
    ends = context.Process(target=_ends_while_a_group_forms, args=(met.where,))
    ends.start()
    ends.join(JOIN_S_MAX)
    assert ends.exitcode == 0


def test_a_torch_without_gloo_forms_groups_that_cannot_be_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(dist.distributed_c10d, "ProcessGroupGloo")
    with cuttable(lambda: True):
        assert not hasattr(dist.distributed_c10d, "ProcessGroupGloo")
