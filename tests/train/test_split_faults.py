"""Faults under a plan that splits the model: a full disk, a rank that dies, folders left behind."""

import multiprocessing
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

from tests.forked import context
from tests.train.meetings import Meeting
from treadle.core.plan import Plan
from treadle.train import carry
from treadle.train.elastic import Move
from treadle.train.group import BrokenGroupError, Group
from treadle.train.planned import Planned
from treadle.train.saving import Saving
from treadle.train.sharded_state import UnreadableError
from treadle.train.state import Position, State
from treadle.train.state_moves import StateMoves

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


def _join(rank: int, folder: Path, where: str) -> Group:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "TREADLE_MEMORY_DIR": str(folder / "memory")}
    group = Group(CPU, LIMIT_S)
    group.join(f"tcp:{where}/group", rank, 2, version=1)
    return group


def _saves(rank: int, folder: Path, where: str, full: int, said: Connection) -> None:
    """One of two; the disk is full for the rank of that number."""
    group = _join(rank, folder, where)
    planned = _split_model(group, folder)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
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
    heard, said = context.Pipe(duplex=False)
    met = Meeting()
    ranks = [
        context.Process(target=_saves, args=(n, tmp_path, met.where, full, said)) for n in range(2)
    ]
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


def _clips(rank: int, folder: Path, where: str, said: Connection) -> None:
    group = _join(rank, folder, where)
    planned = _split_model(group, folder)
    planned._model(torch.ones(2, 32)).mean().backward()
    planned.agree(torch.zeros(()))
    if rank == 1:
        os._exit(1)  # after the gradients are there, and before their norm is
    try:
        planned.clip(1.0)
    except BrokenGroupError:
        said.send("broken")
    os._exit(0)


def test_a_rank_that_dies_before_the_norm_is_known_breaks_the_group_and_not_the_script(
    tmp_path: Path,
) -> None:
    """Any other error would be the script's own, and the attempt would have failed."""
    heard, said = context.Pipe(duplex=False)
    met = Meeting()
    ranks = [context.Process(target=_clips, args=(n, tmp_path, met.where, said)) for n in range(2)]
    for each in ranks:
        each.start()
    said.close()
    for each in ranks:
        each.join(60)
    assert heard.poll(0), "it ended with another error"
    assert heard.recv() == "broken"


def test_a_second_change_before_a_step_removes_the_folder_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_MEMORY_DIR", str(tmp_path))
    monkeypatch.delenv("TREADLE_CHECKPOINT_DIR", raising=False)
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    planned, group = Planned(model, optimizer, CPU), Group(CPU, LIMIT_S)
    state = State(model, optimizer, {}, Position())
    moves = StateMoves(group, Saving(group, 600.0), CPU)
    for version in (1, 2):
        folder = moves.carry(version, state, planned)
        moves.take(Move(Plan(), carried=folder), state, planned, seed=0)
    assert [path.name for path in tmp_path.iterdir()] == [Path(folder).name]
    moves.forget_carried()
    assert not list(tmp_path.iterdir())


def _leaves(said: Connection) -> None:
    """Write the state for others, and wait to be killed before any of them reads it."""
    model = nn.Sequential(nn.Linear(4, 4))
    planned = Planned(model, torch.optim.SGD(model.parameters(), lr=0.1), CPU)
    carry.write_alone("1", planned, {"step": 1})
    said.send("written")
    signal.pause()


@pytest.mark.parametrize("place", ["TREADLE_MEMORY_DIR", "TREADLE_CHECKPOINT_DIR"])
def test_folders_of_killed_members_are_removed_at_the_next_start_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    for name in ("TREADLE_MEMORY_DIR", "TREADLE_CHECKPOINT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(place, str(tmp_path))
    fork = multiprocessing.get_context("fork")  # It has this process's environment.
    heard, said = fork.Pipe(duplex=False)
    writer = fork.Process(target=_leaves, args=(said,), daemon=True)
    writer.start()
    assert heard.poll(30)
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    planned, group = Planned(model, optimizer, CPU), Group(CPU, LIMIT_S)
    state = State(model, optimizer, {}, Position())
    left = {}
    for alive in (True, False):
        if not alive:
            writer.kill()
            writer.join()
        moves = StateMoves(group, Saving(group, 600.0), CPU)
        moves.take(Move(Plan(), spread=False, fresh=True), state, planned, seed=0)
        left[alive] = [path.name for path in tmp_path.glob(".carried-*")]
    assert left == {True: [".carried-1"], False: []}


@pytest.mark.parametrize("part", ["__0_0.distcp", ".metadata"])
def test_parts_that_torch_cannot_read_are_passed_over_for_older_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Their digests are right: they were written so. Torch raises what is no Exception."""
    monkeypatch.setenv("TREADLE_MEMORY_DIR", str(tmp_path / "memory"))
    monkeypatch.setenv("TREADLE_CHECKPOINT_DIR", str(tmp_path / "kept"))
    (tmp_path / "memory").mkdir()
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    planned, group = Planned(model, optimizer, CPU), Group(CPU, LIMIT_S)
    position = Position()
    state, saving = State(model, optimizer, {}, position), Saving(group, 600.0)
    assert saving.checkpoints is not None
    for step in (1, 2):
        position.applied = step
        folder = Path(carry.write_alone("save", planned, state.rest(CPU)))
        if step == 2:
            (folder / part).write_bytes(b"not what torch writes")
        saving.checkpoints.save_parts(step, folder, state.rest(CPU))
    moves, start = StateMoves(group, saving, CPU), Move(Plan(), spread=False, fresh=True)
    moves.take(start, state, planned, seed=0)
    assert position.applied == 1
    assert "parts-000000000001 is taken instead" in capfd.readouterr().err
    (tmp_path / "kept" / "checkpoint-000000000001").unlink()
    with pytest.raises(UnreadableError, match="parts-000000000002 cannot be loaded"):
        StateMoves(group, saving, CPU).take(start, state, planned, seed=0)
