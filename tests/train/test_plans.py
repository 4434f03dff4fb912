"""A plan changes how a model is trained, not what it learns: real processes, real collectives."""

import os
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore

from tests.forked import context
from tests.shared import THOROUGH
from treadle.core.errors import InvalidInputError
from treadle.core.plan import Plan
from treadle.train.parallelize import Blueprint, parallelize
from treadle.train.planned import Planned
from treadle.train.tensor_plans import tensor_plan

WIDTH, WORDS, BATCH, LENGTH = 32, 50, 12, 10
CPU = torch.device("cpu")
RANKS = 4
# (plan, devices): each step of training under another one. Others are in test_plan_changes.py.
LIFE = [
    (Plan(), 2),
    (Plan(pipeline=2), 4),
    (Plan(tensor=2, shard="all"), 4),
    (Plan(shard="gradients"), 3),
    (Plan(pipeline=4, accumulate=2), 4),
    (Plan(tensor=4), 4),
    (Plan(shard="optimizer", recompute=True, offload=True), 2),
]
if not THOROUGH:
    LIFE = LIFE[1:4]
NORM = 0.5  # gradients are clipped to this: the norm is that of all parts together


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.w1, self.w2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        normed = self.before(x)
        query, key, value = (
            part(normed).view(batch, length, -1, 8).transpose(1, 2)
            for part in (self.wq, self.wk, self.wv)
        )
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.wo(seen.transpose(1, 2).reshape(batch, length, -1))
        after: Tensor = self.w2(torch.relu(self.w1(self.between(x))))
        return x + after


def model() -> nn.Sequential:
    torch.manual_seed(0)
    blocks = [Block() for _ in range(4)]
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), *blocks, nn.Linear(WIDTH, WORDS))


def batches() -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(WORDS, (BATCH, LENGTH), generator=draw) for _ in LIFE]


def train(
    planned: Planned, model: nn.Module, optimizer: torch.optim.Optimizer, words: Tensor
) -> float:
    """One step on this rank's part of the batch; the mean loss of all."""
    size = dist.get_world_size() if dist.is_initialized() else 1
    rank = dist.get_rank() if dist.is_initialized() else 0
    replicas = planned.replicas or size
    mine = words.chunk(replicas)[planned.replica if planned.replicas else rank]
    pieces = mine.chunk(planned.plan.accumulate if planned.plan.pipeline == 1 else 1)
    total = torch.zeros(())
    for number, piece in enumerate(pieces, 1):
        with planned.passing(last=number == len(pieces)):
            logits = model(piece[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), piece[:, 1:].flatten())
            loss = loss * len(piece) / len(words)  # its part of the whole batch
            (loss * planned.scale()).backward()
        total += loss.detach()
    if planned.replicas is None:  # what a run with no other plan does
        for parameter in model.parameters():
            if size > 1 and parameter.grad is not None:
                dist.all_reduce(parameter.grad)
        if size > 1:
            dist.all_reduce(total)
    else:
        total = planned.agree(total)[0]
    planned.clip(NORM)
    optimizer.step()
    optimizer.zero_grad()
    return total.item()


def reference() -> list[float]:
    alone = model()
    optimizer = torch.optim.AdamW(alone.parameters(), lr=1e-2)
    planned = Planned(alone, optimizer, CPU)
    return [train(planned, alone, optimizer, words) for words in batches()]


def live(rank: int, folder: Path, barrier: Barrier, losses: Connection) -> None:
    """One of four processes: a step under each plan, with the state of the one before."""
    warnings.simplefilter("ignore")  # torch's own; as errors they would end the process
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    mine, found = model(), []
    optimizer = torch.optim.AdamW(mine.parameters(), lr=1e-2)
    planned = Planned(mine, optimizer, CPU)
    if rank == 0:
        planned.save(folder / "0")
    barrier.wait(120)
    for number, ((plan, size), words) in enumerate(zip(LIFE, batches(), strict=True)):
        if rank < size:
            store = FileStore(str(folder / f"group{number}"), size)
            dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
            planned.become(plan, folder / str(number))
            found.append(train(planned, mine, optimizer, words))
            if planned.split or rank == 0:
                planned.save(folder / str(number + 1))
            dist.destroy_process_group()
        barrier.wait(120)
    if rank == 0:
        losses.send(found)
    barrier.wait(120)
    os._exit(0)


def test_a_life_under_many_plans_learns_the_same(tmp_path: Path) -> None:
    barrier, (heard, losses) = context.Barrier(RANKS), context.Pipe(duplex=False)
    ranks = [
        context.Process(target=live, args=(n, tmp_path, barrier, losses)) for n in range(RANKS)
    ]
    for each in ranks:
        each.start()
    assert heard.poll(300), "the processes hang"
    found = heard.recv()
    for each in ranks:
        each.join(30)
    assert found == pytest.approx(reference(), abs=2e-5)


@pytest.mark.parametrize(
    ("made", "plan", "why"),
    [
        (nn.Linear(4, 4), Plan(tensor=2), "names no weights"),
        (nn.Linear(4, 4), Plan(pipeline=2), "no sequence"),
        (nn.Sequential(nn.Linear(4, 4)), Plan(pipeline=2), "fewer blocks"),
        (nn.Linear(4, 4), Plan(recompute=True), "no blocks"),
    ],
)
def test_a_plan_that_a_model_does_not_support_is_refused(
    made: nn.Module, plan: Plan, why: str
) -> None:
    assert why in Blueprint.of(made).supports(plan)


def test_a_plan_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="does not fit 1 devices"):
        parallelize(Blueprint.of(model()), Plan(tensor=2), CPU)


def test_weights_that_may_be_split_are_declared_or_known_by_name() -> None:
    known = tensor_plan(model())
    assert known["1.wq"] == "colwise"
    assert known["1.wo"] == "rowwise"
    declared = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4))
    assert tensor_plan(declared) == {}
    declared.tensor_plan = {"0": "colwise", "1": "rowwise"}  # type: ignore[assignment]
    assert tensor_plan(declared) == {"0": "colwise", "1": "rowwise"}


def test_a_blueprint_keeps_buffers_and_no_weights() -> None:
    made = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4))
    made[0].register_buffer("angles", torch.arange(3.0), persistent=False)
    blueprint = Blueprint.of(made)
    assert all(each.is_meta for each in blueprint.model.parameters())
    built = blueprint.build(CPU)
    assert torch.equal(dict(built.named_buffers())["0.angles"], torch.arange(3.0))
    assert names(built) == names(made)


def names(made: nn.Module) -> Sequence[str]:
    return list(made.state_dict())
