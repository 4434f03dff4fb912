"""What a running attempt can change without a restart: the words in which it says so.

size            the number of its devices
devices         which devices, as many
nodes=n0:4000:7 on which nodes, as long as that one stays or is lost: its supervisor coordinates,
                at that port, by order 7
plan            copies of the model, off-load and accumulation
plan:shard      ZeRO: optimizer, gradients or parameters shared out
plan:recompute  activations computed again
plan:tensor=8   tensor parallel; the degree must divide that number
plan:pipeline=4 pipeline parallel, with so many stages at most
plan:model=...  the size of the model, in numbers
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from treadle.core.allocation import Allocation, Pause
from treadle.core.plan import Plan

PLAN = "plan"
_MODEL = f"{PLAN}:model="
_NODES = "nodes="


def announced(*, shard: bool, recompute: bool, tensor: int, pipeline: int) -> tuple[str, ...]:
    """The words for what a model supports; tensor and pipeline: 1 is none."""
    words = [PLAN]
    words += [f"{PLAN}:shard"] * shard + [f"{PLAN}:recompute"] * recompute
    words += [f"{PLAN}:tensor={tensor}"] if tensor > 1 else []
    words += [f"{PLAN}:pipeline={pipeline}"] if pipeline > 1 else []
    return tuple(words)


def may_change(
    before: Allocation,
    after: Allocation,
    words: Collection[str],
    pauses: Collection[Pause] = (),
    lost: Collection[str] = (),
) -> bool:
    """Whether an attempt that announced these words can have that without a restart.

    pauses: how it can be paused. A paused one can always go on where it was.
    lost: nodes on which nothing of it runs any more: another one coordinates.
    """
    different = set(before.differences(after))
    if "paused" in different:
        return different == {"paused"} and (after.paused is None or after.paused in pauses)
    if not different <= set(words) or not _may_span(before, after, words, lost):
        return False
    return PLAN not in different or allows(words, after.plan)


def _may_span(
    before: Allocation, after: Allocation, words: Collection[str], lost: Collection[str]
) -> bool:
    """Whether it may be on these nodes.

    State that is split among members goes through a folder in memory, which is on one node.
    """
    if before.nodes() == after.nodes() and len(after.nodes()) == 1:
        return True
    found = leader(words)
    split = not (before.plan.replicated and after.plan.replicated)
    return found is not None and found.node in (*after.nodes(), *lost) and not split


class Leader(NamedTuple):
    """The node whose supervisor coordinates members on others."""

    node: str
    port: int
    term: int  # the order by which the controller appointed it

    @property
    def word(self) -> str:
        return f"{_NODES}{self.node}:{self.port}:{self.term}"


def leader(words: Iterable[str]) -> Leader | None:
    """None: an attempt that announced these words stays on its nodes."""
    for word in words:
        if word.startswith(_NODES):
            node, port, term = word.removeprefix(_NODES).rsplit(":", 2)
            return Leader(node, int(port), int(term))
    return None


def allows(words: Iterable[str], plan: Plan) -> bool:
    """Whether an attempt that announced these words can change to that plan."""
    can = set(words)
    if PLAN not in can:
        return False
    if plan.shard != "none" and f"{PLAN}:shard" not in can:
        return False
    if plan.recompute and f"{PLAN}:recompute" not in can:
        return False
    tensor, pipeline = _number(can, "tensor"), _number(can, "pipeline")
    return tensor % plan.tensor == 0 and plan.pipeline <= pipeline


def _number(can: set[str], kind: str) -> int:
    start = f"{PLAN}:{kind}="
    found = [word.removeprefix(start) for word in can if word.startswith(start)]
    return next((int(each) for each in found if each.isdecimal()), 1)


class ModelSize(NamedTuple):
    """What an attempt says of its model, so that plans for it can be compared."""

    parameters: int
    batch: int  # samples of one step, over all devices
    sequence: int
    hidden: int
    layers: int
    heads: int

    @property
    def word(self) -> str:
        return _MODEL + "/".join(str(number) for number in self)


def model_size(words: Iterable[str]) -> ModelSize | None:
    """The size of the model, if it was announced."""
    for word in words:
        numbers = word.removeprefix(_MODEL).split("/")
        whole = word.startswith(_MODEL) and len(numbers) == len(ModelSize._fields)
        if whole and all(each.isdecimal() and int(each) > 0 for each in numbers):
            return ModelSize(*(int(each) for each in numbers))
    return None
