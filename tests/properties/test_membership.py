"""The membership machine against members that follow the library's own rules, under any faults."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.properties.membership_world import SPLIT, Process, World, everything, settle

from treadle.core.member_facts import Changed, Limits, Phase, Refused, Stop, Target
from treadle.core.member_messages import Broken, StopAsked

PLACES = [(f"gpu{number}",) for number in range(5)]
PLANS = ["", "", "recompute", SPLIT]


class Members(RuleBasedStateMachine):
    @initialize(
        places=st.sets(st.sampled_from(PLACES), min_size=1, max_size=4),
        total=st.sampled_from([3, 10, 10_000]),
        least=st.sampled_from([1, 1, 2]),
        plan=st.sampled_from(PLANS),
    )
    def begin(self, places: set[tuple[str, ...]], total: int, least: int, plan: str) -> None:
        self.world = World(total, Limits(least=least))
        self.order = 1
        self.world.give(Target(1, tuple(sorted(places)), plan))
        self.targets = {1: tuple(sorted(places))}
        self.stopped = False
        self.faults = 0

    def pick(self, number: int) -> Process:
        processes = list(self.world.processes.values())
        return processes[number % len(processes)]

    @rule(seed=st.integers(0, 999), count=st.integers(5, 80))
    def go_on_unevenly(self, seed: int, count: int) -> None:
        draw = Random(seed)
        world = self.world
        actions = (world.deliver, world.collect, world.advance, world.advance, world.reap)
        for _ in range(count):
            living = [p for p in world.processes.values() if p.alive or p.outbox] or [self.pick(0)]
            draw.choice(actions)(draw.choice(living))

    @rule(rounds=st.integers(1, 6))
    def go_on_evenly(self, rounds: int) -> None:
        for _ in range(rounds):
            everything(self.world)

    @rule(number=st.integers(0, 9), others=st.integers(0, 31))
    def kill(self, number: int, others: int) -> None:
        """A step that all began may still be applied by some only."""
        living = [p for p in self.world.processes.values() if p.alive]
        if len(living) < 2:
            return
        self.world.die(living[number % len(living)].name)
        for bit, process in enumerate(living):
            if process.mode == "in step":
                self.world.advance(process, unlucky=bool(others >> bit & 1))

    @rule(number=st.integers(0, 9))
    def reap(self, number: int) -> None:
        self.world.reap(self.pick(number))

    @precondition(lambda self: self.order < 12)
    @rule(
        places=st.sets(st.sampled_from(PLACES), min_size=1, max_size=5), plan=st.sampled_from(PLANS)
    )
    def order_members(self, places: set[tuple[str, ...]], plan: str) -> None:
        self.order += 1
        self.targets[self.order] = tuple(sorted(places))
        self.world.give(Target(self.order, self.targets[self.order], plan))

    @precondition(lambda self: self.order < 12 and not self.stopped and self.can_be_taken_over())
    @rule(number=st.integers(0, 9), unheard=st.integers(0, 1023))
    def the_coordinator_is_lost(self, number: int, unheard: int) -> None:
        """With all that was on one place; the next one has an order without that."""
        world, names = self.world, list(self.world.processes)
        place = self.pick(number).place
        left = {p.place for p in world.processes.values() if p.alive} - {place}
        if not left:
            return
        self.order += 1
        lost = {name for bit, name in enumerate(names) if unheard >> bit & 1}
        world.lose_coordinator({place}, self.order, lost)
        self.targets[self.order] = tuple(sorted(left))
        world.give(Target(self.order, self.targets[self.order], ""))

    def can_be_taken_over(self) -> bool:
        """It trains, and no member has only a part of the state (core/live_plans.py)."""
        machine, processes = self.world.machine, self.world.processes.values()
        whole = not any(p.plan or (p.form and p.form.plan) for p in processes)
        whole = whole and not (machine._plan or machine._group_plan)
        return bool(machine.group) and whole and machine.phase in (Phase.RUNNING, Phase.SWITCHING)

    @rule(full=st.booleans())
    def the_disk_fills_up_or_is_emptied(self, full: bool) -> None:
        self.world.full_disk = full

    @rule(places=st.sets(st.sampled_from(PLACES), min_size=1, max_size=5))
    def a_stale_order_changes_nothing(self, places: set[tuple[str, ...]]) -> None:
        before = len(self.world.outputs)
        self.world.give(Target(self.order - 1, tuple(sorted(places))))
        assert len(self.world.outputs) == before

    @rule(number=st.integers(0, 9))
    def a_newcomer_never_becomes_ready(self, number: int) -> None:
        process = self.pick(number)
        # Not at the start: an attempt may take as long as it likes to begin.
        starting = self.world.machine.phase is Phase.STARTING
        process.mute = process.mode == "booting" and not starting

    @rule(number=st.integers(0, 9))
    def a_group_fails_although_all_live(self, number: int) -> None:
        process = self.pick(number)
        if self.faults < 2 and process.alive and process.mode == "in step":
            self.faults += 1
            self.world.deaths += 1
            if process.split:
                self.world.die(process.name)
                return
            process.broken, process.mode = True, "boundary"
            process.say(Broken(process.version, len(process.state or ())))

    @precondition(lambda self: not self.stopped)
    @rule(number=st.integers(0, 30))
    def stop(self, number: int) -> None:
        if number == 0:
            self.stopped = True
            self.world.give(Stop())
        elif number == 1 and self.pick(1).alive:
            self.stopped = True
            self.pick(1).say(StopAsked())

    @invariant()
    def members_of_a_group_have_one_state(self) -> None:
        for version, names in self.world.groups.items():
            states = [
                p.state
                for name in names
                if (p := self.world.processes[name]).version == version and p.alive and p.state
            ]
            for one in states:
                for other in states:
                    shared = min(len(one), len(other))
                    assert one[:shared] == other[:shared], (version, one, other)
                    assert abs(len(one) - len(other)) <= 1

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        most = max((len(p.state or ()) for p in world.processes.values() if p.alive), default=0)
        settle(world)
        machine = world.machine
        assert machine.phase in (Phase.RUNNING, Phase.ENDED), machine.phase
        if machine.phase is Phase.ENDED:
            assert not machine.members
            assert not any(p.alive for p in world.processes.values()), "something is left behind"
            return
        assert not self.stopped or world.total < 10_000
        alive = {p.name for p in world.processes.values() if p.alive}
        assert alive == set(machine.group) == set(machine.members)
        group = [world.processes[name] for name in machine.group]
        assert len({p.version for p in group}) == 1
        steps = min(len(p.state or ()) for p in group)
        assert steps >= most or world.parts_lost, "a step was lost"
        self.check_places(group)

    def check_places(self, group: list[Process]) -> None:
        """The newest target less the lost, or what it was before a refusal, less the lost."""
        last = [o for o in self.world.outputs if isinstance(o, Changed | Refused) and o.order][-1]
        assert last.order == self.order
        places = {process.place for process in group}
        if isinstance(last, Changed):
            assert places <= set(self.targets[self.order])
            lost = set(self.targets[self.order]) - places
            gone = {p.place for p in self.world.processes.values() if not p.alive}
            assert lost <= gone


class Coordinators(Members):
    """Where coordinators are lost often: the model is whole on each member."""

    @initialize(places=st.sets(st.sampled_from(PLACES), min_size=2), rounds=st.integers(2, 9))
    def begin(self, places: set[tuple[str, ...]], rounds: int) -> None:
        super().begin(places, 10_000, 1, "")
        self.go_on_evenly(rounds)

    @precondition(lambda self: self.order < 12)
    @rule(places=st.sets(st.sampled_from(PLACES), min_size=1, max_size=5))
    def order_members(self, places: set[tuple[str, ...]]) -> None:
        super().order_members(places, "")


Members.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestMembers = Members.TestCase
Coordinators.TestCase.settings = Members.TestCase.settings
TestCoordinators = Coordinators.TestCase
