"""What one seed does: the jobs of a run, and what happens to the cluster meanwhile. Pure.

Every run has all kinds of faults: one node is cut off for 20 seconds, the raylet of another one is
killed and returns, agents are killed, and the controller is killed and started again. They overlap
as the seed has it.
"""

import random
from dataclasses import dataclass, replace
from typing import NamedTuple

NODES = ("n0", "n1", "n2", "n3")
HEAD = NODES[0]  # It has Ray's head and the controller: it is never lost.
SLOTS = 2  # of each node
CUT_S = 20.0
MISSED_S = 11.0  # a node that is cut off for so long is missed, and its lease has not run out
ALWAYS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job, and how it must end."""

    name: str
    devices: int
    steps: int  # of a tenth of a second
    submit_at: float = 0.0  # seconds from the beginning, as all moments here
    retries: int = 0
    fails: int = 0  # how often it fails by itself
    code: int = 0  # exit code of these failures
    resumable: bool = False
    stubborn: bool = False  # it ignores the stop signal, and has to be killed
    grace_s: float = 1.0
    patience_s: float | None = None  # how long a rank waits for its peers; None: for ever
    cancel_at: float | None = None  # it would run for ever

    @property
    def state(self) -> str:
        """The only right end."""
        if self.cancel_at is not None:
            return "CANCELLED"
        return "FAILED" if self.fails > self.retries else "SUCCEEDED"


class Fault(NamedTuple):
    at: float
    kind: str  # cut, raylet, agent, controller, driver, hang
    node: str
    lasts_s: float = 0.0  # until it is healed or started again

    def __str__(self) -> str:
        until = f"-{self.at + self.lasts_s:.1f}" if self.lasts_s else ""
        return f"{self.kind} {self.node} {self.at:.1f}{until}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    seed: int
    works: tuple[Work, ...]
    faults: tuple[Fault, ...]

    def lost(self) -> set[str]:
        """The nodes of which jobs may be lost."""
        return {fault.node for fault in self.faults if fault.kind in ("cut", "raylet")}


def plan_of(seed: int, *, cut_s: float = CUT_S, cuts: bool = True) -> Plan:
    """The same for the same seed. cut_s: a node that is cut off for less may not be missed.

    cuts: without them, everything else is the same.
    """
    draw = random.Random(seed)
    works, faults = _works(draw), _faults(draw, cut_s)
    kept = sorted(fault for fault in faults if cuts or fault.kind != "cut")
    return Plan(seed=seed, works=tuple(works), faults=tuple(kept))


def joining(seed: int) -> Plan:
    """The same jobs and faults, but the controller dies about when the node returns.

    That node was missed and joins while the next controller takes over. What ran there is not over
    by then, or was a moment ago.
    """
    plan, draw = plan_of(seed, cut_s=MISSED_S), random.Random(f"joining {seed}")
    cut = next(fault for fault in plan.faults if fault.kind == "cut")
    dies_at = cut.at + MISSED_S + draw.uniform(-2.0, 6.0)
    faults = [
        fault._replace(at=dies_at) if fault.kind == "controller" else fault for fault in plan.faults
    ]
    # Longer ones: they are to run when all that happens.
    works = [
        replace(work, steps=work.steps + 150) if work.name in ("gang", "long", "pair") else work
        for work in plan.works
    ]
    return replace(plan, works=tuple(works), faults=tuple(sorted(faults)))


def hanging(plan: Plan) -> Plan:
    """The same jobs and faults, and the process of an agent is stopped too.

    Of a node whose raylet lives: a stopped process outlives its raylet, and keeps its folder.
    """
    draw = random.Random(f"hanging {plan.seed}")
    there = sorted(set(NODES) - plan.lost())
    hang = Fault(draw.uniform(0.5, 12.0), "hang", draw.choice(there))
    return replace(plan, faults=tuple(sorted([*plan.faults, hang])))


def _works(draw: random.Random) -> list[Work]:
    """First those that hold the nodes when things begin to die, then those that wait for them."""

    def steps(low_s: float, high_s: float) -> int:
        return round(10 * draw.uniform(low_s, high_s))

    gang = draw.choice((4, 4, 4, 6, 6, 8))
    impatient = draw.random() < 0.5
    works = [
        Work(
            name="gang",
            devices=gang,
            steps=steps(3.0, 8.0),
            resumable=draw.random() < 0.5,
            stubborn=draw.random() < 0.3,
            retries=3 if impatient else 0,
            patience_s=draw.uniform(2.0, 5.0) if impatient else None,
        ),
        Work(name="long", devices=1, steps=steps(5.0, 12.0), resumable=draw.random() < 0.5),
        # Its node may be lost and return; nothing else stops it.
        Work(
            name="pair",
            devices=2,
            steps=steps(3.0, 9.0),
            stubborn=draw.random() < 0.5,
            grace_s=30.0,
        ),
        Work(name="flaky", devices=1, steps=steps(1.0, 3.0), retries=2, fails=2, code=5),
        Work(name="broken", devices=draw.choice((1, 2)), steps=20, retries=1, fails=ALWAYS, code=7),
        Work(
            name="unwanted",
            devices=draw.choice((1, 2, 4)),
            steps=100_000,
            stubborn=draw.random() < 0.5,
            cancel_at=draw.uniform(3.0, 12.0),
        ),
        Work(name="late", devices=draw.choice((1, 2, 4)), steps=steps(1.0, 3.0), submit_at=6.0),
    ]
    first = works[: draw.choice((1, 2, 3))]
    rest = works[len(first) :]
    draw.shuffle(rest)
    return [*first, *rest]


def _faults(draw: random.Random, cut_s: float) -> list[Fault]:
    others = list(NODES[1:])
    draw.shuffle(others)
    cut, killed, spare = others
    found = [
        Fault(draw.uniform(0.5, 3.0), "cut", cut, cut_s),
        Fault(draw.uniform(0.5, 14.0), "raylet", killed, draw.uniform(0.5, 6.0)),
        Fault(draw.uniform(0.5, 16.0), "controller", HEAD, draw.uniform(0.1, 3.0)),
    ]
    found += [
        Fault(draw.uniform(0.5, 18.0), "agent", draw.choice(NODES))
        for _ in range(draw.choice((1, 2, 2, 3)))
    ]
    if draw.random() < 0.3:
        found.append(Fault(draw.uniform(0.5, 18.0), "driver", HEAD))
    if draw.random() < 0.2:
        found.append(Fault(draw.uniform(0.5, 12.0), "raylet", spare, draw.uniform(0.5, 6.0)))
    return found
