"""A state in parts that cannot be written costs nothing but itself: real ranks, a full disk."""

import multiprocessing as mp
import os
import resource
import signal
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from treadle.core.plan import Plan
from treadle.train import carry
from treadle.train.group import Group
from treadle.train.planned import Planned

CPU = torch.device("cpu")
LIMIT_S = 20.0  # of a collective: a rank that waits for another fails the test
ROOM = 64  # bytes of a file: not even the document has room


def _split_model(group: Group, folder: Path) -> Planned:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    planned = Planned(model, torch.optim.SGD(model.parameters(), lr=0.1), CPU)
    if group.rank == 0:
        planned.save(folder / "start")
    dist.barrier()
    planned.become(Plan(shard="all"), folder / "start")
    return planned


def _rank(rank: int, folder: Path, full: int, said: Connection) -> None:
    """One of two; the disk is full for the rank of that number."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "TREADLE_MEMORY_DIR": str(folder / "memory")}
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    group = Group(CPU, LIMIT_S)
    group.join(f"file:{folder}/group", rank, 2)
    planned = _split_model(group, folder)
    if rank == full:
        resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, resource.RLIM_INFINITY))
    try:
        carry.write("1", planned, {"step": 1}, group)
    except OSError as error:
        found = type(error).__name__
    else:
        found = "written"
    total = torch.ones(())
    dist.all_reduce(total)  # The group still stands, and all ranks are at the same place of it.
    said.send((rank, found, float(total), os.listdir(folder / "memory")))  # noqa: PTH208
    os._exit(0)


@pytest.mark.parametrize("full", [0, 1])
def test_a_full_disk_on_one_rank_is_an_error_on_all_and_the_group_goes_on(
    tmp_path: Path, full: int
) -> None:
    (tmp_path / "memory").mkdir()
    fork = mp.get_context("fork")
    heard, said = fork.Pipe(duplex=False)
    ranks = [fork.Process(target=_rank, args=(n, tmp_path, full, said)) for n in range(2)]
    for each in ranks:
        each.start()
    found = {}
    for _ in ranks:
        assert heard.poll(60), "a rank hangs, or has ended with an error"
        rank, *rest = heard.recv()
        found[rank] = rest
    for each in ranks:
        each.join(30)
    assert {rank: rest[:2] for rank, rest in found.items()} == {
        0: ["OSError", 2.0],
        1: ["OSError", 2.0],
    }
    assert os.listdir(tmp_path / "memory") == []  # noqa: PTH208
