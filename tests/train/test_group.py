"""A group that is cut: its own connections fail at once, and no others do."""

import multiprocessing as mp
import os
import socket
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from treadle.train.group import BrokenGroupError, Group

LIMIT_S = 60.0  # of a collective: longer than the test may take


def _cut(rank: int, folder: Path, said: Connection) -> None:
    """One of two; the first has a connection of its own, made while the state is sent."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    group = Group(torch.device("cpu"), LIMIT_S)
    group.join(f"file:{folder}/group", rank, 2)
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


def test_a_cut_fails_what_waits_for_a_peer_and_spares_other_connections(tmp_path: Path) -> None:
    fork = mp.get_context("fork")
    heard, said = fork.Pipe()
    ranks = [fork.Process(target=_cut, args=(n, tmp_path, said), daemon=True) for n in range(2)]
    for each in ranks:
        each.start()
    assert heard.poll(LIMIT_S / 2), "the sum waits for its timeout"
    assert heard.recv() == ("broken", b"still there")
    heard.send("end")
    for each in ranks:
        each.join(30)


def test_with_nccl_the_watchdog_does_not_end_survivors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's abort of a group asks for it. Without a GPU the group itself cannot be formed."""
    if torch.cuda.is_available():
        pytest.skip("the group would wait for its second rank")
    names = ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING")
    for name in names:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setenv("TREADLE_BACKEND", "nccl")
    group = Group(torch.device("cpu"), LIMIT_S)
    with pytest.raises(BrokenGroupError, match="could not be formed"):
        group.join(f"file:{tmp_path}/group", 0, 2)
    assert [os.environ.get(name) for name in names] == ["0", "0"]
