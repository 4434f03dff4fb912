"""The membership machine against members that follow the library's own rules, under any faults.

Both sides of the protocol are the real ones: `core/membership.py` and `train/orders.py`. The world
between them is made up: messages in flight, steps that need all members of a group, deaths.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from treadle.core.member_facts import (
    Changed,
    Dismiss,
    Ended,
    Gone,
    Heard,
    Launch,
    Limits,
    Phase,
    Refused,
    Send,
    Stop,
    Target,
    Tick,
)
from treadle.core.member_messages import (
    Arrived,
    Broken,
    Finished,
    Form,
    Halt,
    Hello,
    Leave,
    Message,
    Ready,
    StopAsked,
    Switched,
    decode,
    encode,
)
from treadle.core.membership import Membership
from treadle.train.orders import Next, Orders

PLACES = [(f"gpu{number}",) for number in range(5)]
SPLIT = "zero-3"
PLANS = ["", "", "recompute", SPLIT]


@dataclass
class Process:
    """One member: its orders, and where its main thread is."""

    name: str
    place: tuple[str, ...]
    joins: bool
    orders: Orders = field(default_factory=Orders)
    inbox: deque[bytes] = field(default_factory=deque)
    outbox: deque[bytes] = field(default_factory=deque)
    mode: str = "booting"  # boundary, in step, arrived, forming, finished, left, dead
    alive: bool = True
    mute: bool = False  # it never becomes ready
    broken: bool = False
    version: int = 0  # of its group
    form: Form | None = None
    awaited: int = 0  # the version whose Form it awaits
    state: tuple[int, ...] | None = None  # the version in which each step was applied
    exit_stop: bool = False
    plan: str = ""
    halt: Halt | None = None  # at which it saves the state

    @property
    def split(self) -> bool:
        """Whether it has only a part of the state."""
        return self.plan == SPLIT

    def say(self, message: Message) -> None:
        self.outbox.append(encode(message))


class World:
    def __init__(self, total: int, limits: Limits) -> None:
        self.machine = Membership("file:/x/", limits)
        self.total = total
        self.now = 0.0
        self.processes: dict[str, Process] = {}
        self.dismissed: set[str] = set()
        self.groups: dict[int, tuple[str, ...]] = {}
        self.outputs: list[object] = []
        self.ended: Ended | None = None
        self.deaths = 0  # also of those that were dismissed
        self.folders: dict[str, tuple[int, ...]] = {}  # states that were saved at a halt
        self.full_disk = False
        self.parts_lost = False  # a member with a part of the state died

    # -- the coordinator's side

    def give(self, given: object) -> None:
        for out in self.machine.step(given, self.now):  # type: ignore[arg-type]
            self.outputs.append(out)
            match out:
                case Launch():
                    assert out.member not in self.processes
                    self.processes[out.member] = Process(out.member, out.place, out.joins)
                case Dismiss():
                    self.dismissed.add(out.member)
                    self.die(out.member)
                case Send(order=order):
                    if isinstance(order, Form):
                        assert out.member not in self.dismissed
                        assert out.member in order.members
                        assert not self.dismissed & set(order.members)
                        self.check_source(order)
                    line = encode(order)
                    self.processes[out.member].inbox.append(line)
                case Ended():
                    self.ended = out

    def check_source(self, form: Form) -> None:
        """No step is lost: the source has all that any member applied."""
        applied = {name: len(self.processes[name].state or ()) for name in form.members}
        if form.carried:
            assert form.carried in self.folders, "the state was not saved"
            assert len(self.folders[form.carried]) >= max(applied.values()), "a step was lost"
        else:
            assert applied[form.source] == max(applied.values()), "a step was lost"

    def die(self, name: str) -> None:
        self.deaths += 1
        process = self.processes[name]
        if process.alive:
            self.parts_lost |= process.split or (
                process.form is not None and process.form.plan == SPLIT
            )
            process.alive, process.mode = False, "dead"

    # -- the members' side

    def deliver(self, process: Process) -> bool:
        """One order from the coordinator: the listener thread answers even during a step."""
        if not process.inbox or not process.alive:
            return False
        order = decode(process.inbox.popleft())
        assert order is not None
        answer = process.orders.hear(order)  # type: ignore[arg-type]
        if answer is not None:
            process.say(answer)
        return True

    def collect(self, process: Process) -> bool:
        if not process.outbox:
            return False
        answer = decode(process.outbox.popleft())
        assert self.deaths or not isinstance(answer, Broken), "a change without a loss broke"
        self.give(Heard(process.name, answer))  # type: ignore[arg-type]
        return True

    def reap(self, process: Process) -> bool:
        """The supervisor reads what a process said before it sees its end."""
        if process.alive or process.name not in self.machine.members:
            return False
        while self.collect(process):
            pass
        self.give(Gone(process.name))
        return True

    def advance(self, process: Process, *, unlucky: bool = False) -> bool:  # noqa: PLR0911
        """Let the main thread of a member go on as far as its next wait."""
        if not process.alive:
            return False
        match process.mode:
            case "booting":
                if process.mute:
                    return False
                process.say(Hello(("size",), 60.0))
                process.say(Ready())
                process.mode = "arrived"
                return True
            case "boundary":
                return self._boundary(process)
            case "in step":
                return self._step(process, unlucky=unlucky)
            case "arrived":
                return self._await(process)
            case "forming":
                return self._form(process)
            case "carrying":
                return self._carry(process)
            case _:
                return False

    def _boundary(self, process: Process) -> bool:
        assert process.state is not None
        finished = len(process.state) >= self.total
        decision = process.orders.at_boundary(broken=process.broken, finished=finished)
        match decision:
            case Next.GO:
                process.mode = "in step"
            case Next.END:
                process.alive, process.mode = False, "finished"
            case Leave():
                process.alive, process.mode = False, "left"
                process.exit_stop = decision.stop
            case Halt():
                if process.split and (process.broken or decision.at_step is None):
                    self.die(process.name)  # It cannot go on from a part of the state.
                elif decision.carry and not process.broken:
                    process.mode, process.halt = "carrying", decision
                else:
                    self._arrive(process, decision)
            case Next.WAIT:
                if finished and process.awaited != -1 and not process.broken:
                    process.awaited = -1  # said once
                    process.say(Finished())
                    return True
                return False
        return True

    def _arrive(self, process: Process, halt: Halt, carried: str = "", problem: str = "") -> None:
        step = None if process.state is None else len(process.state)
        process.mode, process.awaited = "arrived", halt.version
        if not halt.carry:
            process.version = 0  # it left its group
        process.say(Arrived(halt.version, step, carried, problem))

    def _carry(self, process: Process) -> bool:
        """Save the state: all members of a group whose plan is split, else the first alone."""
        halt, names = process.halt, self.groups[process.version]
        assert halt is not None
        assert process.state is not None
        name = f"/carried/{halt.version}"
        peers = [self.processes[each] for each in names]
        there = [peer.mode == "carrying" and peer.halt == halt for peer in peers]
        if process.split and name not in self.folders and not all(there):
            if any(not peer.alive for peer in peers):
                self.die(process.name)
                return True
            return False
        if self.full_disk and name not in self.folders:
            self._arrive(process, halt, problem="no space left on device")
            for peer in peers if process.split else ():
                if peer is not process and peer.mode == "carrying":
                    self._arrive(peer, halt, problem="no space left on device")
            return True
        if process.split or process.name == names[0]:
            self.folders[name] = process.state
        saved = name in self.folders and (process.split or process.name == names[0])
        self._arrive(process, halt, name if saved else "")
        return True

    def _step(self, process: Process, *, unlucky: bool) -> bool:
        """A step needs all members of the group; one that is gone may have given its part."""
        state = process.state
        assert state is not None
        step = len(state)
        peers = [self.processes[name] for name in self.groups[process.version]]
        began = [self._gave(peer, process.version, step) for peer in peers]
        gone = [not peer.alive or peer.broken or not self._is_in(peer, process) for peer in peers]
        if all(began) and not (unlucky and any(gone)):
            process.state = (*state, process.version)
            process.orders.applied = step + 1
            process.mode = "boundary"
            return True
        if any(lost for given, lost in zip(began, gone, strict=True) if not given or unlucky):
            if process.split:
                self.die(process.name)
                return True
            process.mode, process.broken = "boundary", True
            process.say(Broken(process.version, step))
            return True
        return False

    def _is_in(self, peer: Process, process: Process) -> bool:
        """Whether a peer is in the group of a process, or about to join it."""
        joins = peer.mode == "forming" and peer.form and peer.form.version == process.version
        return peer.version == process.version or bool(joins)

    def _gave(self, peer: Process, version: int, step: int) -> bool:
        """Whether a peer gave its gradients for a step of this group."""
        if peer.state is None:
            return False
        if len(peer.state) > step:
            return peer.state[step] == version
        return peer.mode == "in step" and peer.version == version and len(peer.state) == step

    def _await(self, process: Process) -> bool:
        decision = process.orders.before_group(process.awaited)
        match decision:
            case Form():
                process.mode, process.form = "forming", decision
            case Halt():
                if process.split and process.state is not None:
                    self.die(process.name)
                else:
                    self._arrive(process, decision)
            case Leave():
                process.alive, process.mode = False, "left"
            case Next.GO:
                process.mode, process.awaited = "boundary", 0
            case _:
                return False
        return True

    def _form(self, process: Process) -> bool:
        form = process.form
        assert form is not None
        peers = [self.processes[name] for name in form.members]
        there = [
            peer.form is not None
            and peer.form.version == form.version
            and (peer.mode == "forming" or peer.version == form.version)
            for peer in peers
        ]
        if all(there):
            self._formed(process, form)
            return True
        # One that is gone never comes; a newer Halt means that another will not come.
        if any(not peer.alive for peer in peers) or process.orders.before_group(
            form.version
        ) not in (form, Next.WAIT):
            process.say(Broken(form.version, None))
            process.mode, process.awaited = "arrived", form.version
            process.orders.formed(form.version)
            if process.name in form.receivers or form.carried or form.plan == SPLIT:
                process.state = None  # perhaps a part of it came
                process.plan = ""
            return True
        return False

    def _formed(self, process: Process, form: Form) -> None:
        source = self.processes[form.source]
        if form.carried:
            process.state = self.folders[form.carried]
        elif source.state is None:
            alive = [p for p in self.processes.values() if p.alive]
            assert self.parts_lost or not any(p.state for p in alive), "state was there"
            source.state = ()
        if process.name in form.receivers and not form.carried:
            assert source.state is not None
            process.state = source.state[: self._at_form(form, source)]
        assert process.state is not None
        process.orders.applied = len(process.state)
        process.orders.formed(form.version)
        process.mode, process.version, process.broken = "boundary", form.version, False
        process.awaited, process.plan = 0, form.plan
        self.groups[form.version] = form.members
        process.say(Switched(form.version, len(process.state), 0.1))

    def _at_form(self, form: Form, source: Process) -> int:
        """Steps of the source when the group was formed: it may have trained on since."""
        assert source.state is not None
        return sum(version < form.version for version in source.state)


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
        places=st.sets(st.sampled_from(PLACES), min_size=1, max_size=5),
        plan=st.sampled_from(PLANS),
    )
    def order_members(self, places: set[tuple[str, ...]], plan: str) -> None:
        self.order += 1
        self.targets[self.order] = tuple(sorted(places))
        self.world.give(Target(self.order, self.targets[self.order], plan))

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


def everything(world: World) -> bool:
    """Each message and each member goes on once; whether anything did."""
    moved = False
    for process in list(world.processes.values()):
        moved |= world.reap(process)
        while world.deliver(process):
            moved = True
        moved |= world.advance(process)
        while world.collect(process):
            moved = True
    return moved


def settle(world: World) -> None:
    """No more faults: until the group trains and nothing else happens."""
    quiet = 0
    for _ in range(600):
        before = len(world.outputs)
        moved = everything(world)
        due = world.machine.due
        if due is not None and (not moved or quiet > 4):
            world.now = max(world.now, due)
            world.give(Tick())
        quiet = quiet + 1 if len(world.outputs) == before else 0
        if world.ended or (
            quiet > 8 and world.machine.phase is Phase.RUNNING and world.total >= 10_000
        ):
            return
    assert world.total >= 10_000 or world.ended, "it hangs"


Members.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestMembers = Members.TestCase
