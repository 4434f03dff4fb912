"""Policies decide on a Ray cluster as the simulator does: the same events give the same orders.

One controller on a real cluster of four nodes runs a small workload under each policy, one after
the other. Its journal is then lived through again: a scheduler without an engine takes the recorded
events at the recorded moments, decides when the live one did, and must give every order again, with
its number, its devices, its plan, its turn and the jobs it waits for. Each policy is pressed for
room, so that it resizes, preempts and shares as far as it does such things. Rubick also changes the
plan of a job that trains with torch, by what that job says of its model and how fast its steps are.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from tests.control.living import ME, PATIENCE, bash, ended, export, living, until
from tests.on_ray.bench import SOON
from tests.on_ray.cluster import RayCluster
from tests.shared import thorough
from treadle.control.api import LiveService
from treadle.control.learning import learn_plans
from treadle.control.loop import LiveBelief, PolicyInCharge, belief_on
from treadle.core.actions import Action, Change, Stop
from treadle.core.allocation import Allocation
from treadle.core.job import JobId
from treadle.core.plan import plan_of
from treadle.core.ports import Engine
from treadle.core.scheduler import Scheduler
from treadle.engines.clusters.ray.ray_engine import ray_fleet
from treadle.engines.fleet.engine import FleetEngine
from treadle.engines.registry import EngineContext
from treadle.failures.retry import Classified, live_verdicts
from treadle.failures.rules import shipped
from treadle.journal.journal import Journal, read
from treadle.models.plans.live_plans import LivePlans
from treadle.wire.jobs import JobRequest, State
from treadle.wire.machine import PolicyChange

pytest.importorskip("torch")
pytestmark = thorough

SOON_AGAIN = "live?restart_s=0.05"
FIRST = "fifo"  # while the kind of all jobs is seen alone
RESIZED, STOPPED, SHARED, REPLANNED = "resized", "stopped", "shared", "replanned"
# What each does with the long jobs below, beside starts.
POLICIES = {
    "afs": {RESIZED, STOPPED},
    "muri-l": {STOPPED, SHARED},
    "rubick?restart_s=0.1": {RESIZED, STOPPED, SHARED, REPLANNED},
    "aiturbo?every_s=0.3&restart_s=0.1": {RESIZED, STOPPED, SHARED},
    "philly?retry_s=0.3&tick_s=0.1": {STOPPED, SHARED},
    "weave-l": {RESIZED, STOPPED, SHARED},
}

# Counts its steps in its checkpoint folder, and goes on there; faster with more ranks. It fails
# once if it is told to.
TRAINING = """
trap 'exit 143' TERM
at="$TREADLE_CHECKPOINT_DIR/step"
test -e "$at" || echo 0 > "$at"
while step=$(cat "$at"); test "$step" -lt "$STEPS"; do
  sleep "0.$(printf %03d $((PAUSE_MS / ${WORLD_SIZE:-1})))" & wait $!
  echo $((step + 1)) > "$at"
  echo "step $((step + 1))/$STEPS loss: $((900 / (step + 1)))"
  if test "$step" = 2 -a -n "$FAILS" -a ! -e "$at.failed"; then touch "$at.failed"; exit 1; fi
done
"""
# Trains with torch and says of each step how many ranks did it, under which plan.
PLANNED = Path(__file__).parents[1] / "train" / "elastic_job.py"
WITHIN_S = 180.0  # torch loads slowly on a busy machine
SHARDED = plan_of("d2 zero-2")


@dataclass
class Lived:
    """What a journal has of one policy, and what was decided anew."""

    recorded: list[Action] = field(default_factory=list)
    again: list[Action] = field(default_factory=list)


@dataclass(frozen=True)
class Story:
    """A journal that was recorded, and lived through again."""

    by_policy: Mapping[str, Lived]
    again: LivePlans  # what was learned of models from the journal
    plans: LivePlans  # and by the live controller


def on_ray(cluster: RayCluster, context: EngineContext) -> Engine:
    fleet = ray_fleet(context, cluster.connect, fencing=SOON, look_every_s=0.1)
    return FleetEngine(context, fleet)


def training(
    steps: int, *, pause_ms: int = 100, fails: bool = False, **fields: object
) -> JobRequest:
    env = {"STEPS": str(steps), "PAUSE_MS": str(pause_ms), "FAILS": "yes" if fails else ""}
    return bash(TRAINING, env=env, grace_s=5.0, resumable=True, **fields)


def long(devices: str, *, exclusive: bool = False, **fields: object) -> JobRequest:
    """It seems to take minutes, so that a change pays; it is cancelled."""
    request = training(6000, pause_ms=900, devices=devices, exclusive=exclusive)
    return replace(request, **fields)  # type: ignore[arg-type]


WORKLOAD = (
    training(8, devices="1..4"),
    training(10, devices="2"),
    training(6, devices="4", ranks="one"),
    training(5, devices="1"),
    training(6, devices="1..3", priority=1),
    training(4, devices="1", retries=1, fails=True),
    training(8, devices="1,2,4", tenant="b"),
    training(5, devices="1", tenant="b"),
    training(5, devices="1", tenant="b"),
    training(4, devices="2"),
)


async def record(live: LiveService, folder: Path) -> LivePlans:
    """The workload under each policy in turn; before that, one job alone shows what it needs."""
    seen = (await live.submit(ME, training(9, pause_ms=900))).id
    await ended(live, seen)
    # All that decisions rest on is in the journal, but for the record of jobs that shared.
    belief = live.context.belief
    assert isinstance(belief, LiveBelief)
    for policy, does in POLICIES.items():
        named = PolicyChange(policy=f"{policy}+{SOON_AGAIN}", placement="count")
        await live.set_policy(ME, named)
        jobs = []
        for request in WORKLOAD:
            jobs.append((await live.submit(ME, request)).id)
            await asyncio.sleep(0.03)
        await ended(live, *jobs)
        await press(live, makes_room=RESIZED in does)
        if REPLANNED in does:
            await replan(live, belief.plans, folder)
    assert belief.record.stored() == {}
    return belief.plans


async def press(live: LiveService, *, makes_room: bool) -> None:
    """One long job has all devices, and others need some.

    makes_room: it is expected to be made smaller for the second, which shares with none. The third
    has a higher priority, and the fourth is of the same kind.
    """
    elastic = (await live.submit(ME, long("1..9", exclusive=True, guaranteed=False))).id
    await until(live, State.RUNNING, jobs=(elastic,))
    rigid = (await live.submit(ME, long("6", exclusive=True))).id
    if makes_room:
        await until(live, State.RUNNING, jobs=(elastic, rigid))
    urgent = (await live.submit(ME, long("9", priority=1))).id
    await until(live, State.RUNNING, jobs=(urgent,))
    alike = (await live.submit(ME, long("9", priority=1))).id
    await until(live, State.RUNNING, jobs=(alike,))
    jobs = (elastic, rigid, urgent, alike)
    for job in jobs:
        await live.cancel(ME, job)
    await ended(live, *jobs)


async def replan(live: LiveService, plans: LivePlans, folder: Path) -> None:
    """A job that trains is given a second device with another plan, and loses both again.

    1. Another job leaves it one device. By the size of its model it would gain nothing from a
    second one. 2. Its steps are measured: it would. 3. The other job goes, and 4. another comes.
    """
    other = (await live.submit(ME, long("8", exclusive=True))).id
    await until(live, State.RUNNING, jobs=(other,))
    request = JobRequest(
        command=(sys.executable, str(PLANNED), "100000"),
        devices="1,2",
        resumable=True,
        workdir=str(folder),
        model="mine",
        guaranteed=False,
    )
    planned = (await live.submit(ME, request)).id
    await trains(folder, 1)
    await asyncio.wait_for(measured(plans), WITHIN_S)
    await live.cancel(ME, other)
    await trains(folder, 2, SHARDED.text)
    another = (await live.submit(ME, long("8", exclusive=True))).id
    await trains(folder, 1)
    jobs = (planned, another)
    for job in jobs:
        await live.cancel(ME, job)
    await ended(live, other, *jobs)


async def measured(plans: LivePlans) -> None:
    """Wait until the plan model of the job is more than a guess."""
    while "mine" not in plans.types or "mine" in plans._guessed:
        await asyncio.sleep(0.02)


async def trains(folder: Path, size: int, plan: str | None = None) -> None:
    """Wait until the newest step in that folder is of so many ranks; plan: under that one."""

    async def reached() -> None:
        path = folder / "rows.jsonl"
        while True:
            rows = path.read_text().splitlines() if path.exists() else []
            last = json.loads(rows[-1]) if rows and rows[-1].endswith("}") else {}
            if last.get("size") == size and plan in (None, last["plan"]):
                return
            await asyncio.sleep(0.05)

    await asyncio.wait_for(reached(), WITHIN_S)


def done(orders: Sequence[Action]) -> set[str]:
    """What these orders do beside starts."""
    held: dict[JobId, Allocation] = {}
    found: set[str] = set()
    for order in orders:
        if isinstance(order, Stop):
            found.add(STOPPED)
            continue
        before = held.get(order.job)
        if isinstance(order, Change) and before and order.allocation.size != before.size:
            found.add(RESIZED)
        if isinstance(order, Change) and before and order.allocation.plan == SHARDED:
            found.add(REPLANNED)
        if order.allocation.turn:
            found.add(SHARED)
        held[order.job] = order.allocation
    return found


def lived_again(journal: Journal) -> tuple[dict[str, Lived], LivePlans]:
    """The orders of a scheduler that is given the events of a journal, by policy.

    Also what it knows of models in the end.
    """
    belief = belief_on(journal.opened.cluster)
    scheduler: Scheduler | None = None
    found: dict[str, Lived] = {}
    for step in journal.steps:
        if step.policy is not None:
            name = step.policy.policy
            made = PolicyInCharge().make(name, step.policy.placement, belief)
            if scheduler is None:
                retry = Classified(live_verdicts(shipped()), PATIENCE)
                scheduler = Scheduler(made, journal.opened.cluster, retry=retry)
            else:
                scheduler.set_policy(made, step.now)
            lived = found[name.removesuffix(f"+{SOON_AGAIN}")] = Lived()
        assert scheduler is not None, "the first line says which policy is in charge"
        lived.again += scheduler.take(step.events, step.now)
        learn_plans(belief.plans, step.events, scheduler.jobs)
        if step.wake_at is not None:
            lived.again += scheduler.decide(step.now)
        lived.recorded += step.actions
        assert lived.again == lived.recorded, f"at {step.now:g} s, under {name}"
    return found, belief.plans


@pytest.fixture(scope="module")
def story(ray_nodes: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("orders")
    job = tmp_path_factory.mktemp("planned")
    ray_nodes.give_back_all()

    async def told() -> LivePlans:
        engine = partial(on_ray, ray_nodes)
        async with living(folder, policy=FIRST, engine=engine) as live:
            plans = await record(live, job)
            await export(live, folder / "journal")
            return plans

    plans = asyncio.run(told())
    return Story(*lived_again(read(folder / "journal")), plans)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_simulator_gives_the_orders_that_were_given_on_ray(policy: str, story: Story) -> None:
    found = story.by_policy[policy]
    assert found.again == found.recorded
    assert len(found.recorded) >= len(WORKLOAD)
    assert done(found.recorded) >= POLICIES[policy]


def test_the_simulator_learns_the_plan_models_that_were_learned_on_ray(story: Story) -> None:
    assert story.again.types == story.plans.types
    assert story.again._guessed == story.plans._guessed
    assert "mine" not in story.plans._guessed, "a step of it was measured"
