"""A made-up world for the membership machine: messages in flight, steps, deaths.

Both sides of the protocol are the real ones: `core/membership.py` and `train/orders.py`.
"""

from collections import deque
from dataclasses import dataclass, field

from treadle.core.member_facts import (
    Dismiss,
    Ended,
    Gone,
    Heard,
    Launch,
    Limits,
    Phase,
    Send,
    TakeOver,
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
    Switched,
    decode,
    encode,
)
from treadle.core.membership import Membership
from treadle.engines.node.team_member import ABOUT
from treadle.train.orders import Next, Orders

SPLIT = "zero-3"


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
    said: list[Message] = field(default_factory=list)  # what its supervisor keeps for the next one

    @property
    def split(self) -> bool:
        """Whether it has only a part of the state."""
        return self.plan == SPLIT

    def say(self, message: Message) -> None:
        self.outbox.append(encode(message))

    def passed(self) -> Message | None:
        """The supervisor passes its next word on."""
        message = decode(self.outbox.popleft())
        if type(message).__name__ in ABOUT:
            assert message is not None
            self.said.append(message)
        return message


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

    def lose_coordinator(self, places: set[tuple[str, ...]], term: int, unheard: set[str]) -> None:
        """It is gone with what was on these places; another one is appointed.

        unheard: the members whose words to it were on their way.
        """
        self.deaths += 1
        for process in self.processes.values():
            if process.place in places and process.alive:
                self.die(process.name)
            while process.name in unheard and process.outbox:
                process.passed()
        left = {name: each.place for name, each in self.processes.items() if each.alive}
        group = tuple(name for name in left if Ready() in self.processes[name].said)
        self.machine = Membership("file:/x/", self.machine._limits)
        self.give(TakeOver(left, group, term, ""))
        for name in left:
            for answer in self.processes[name].said:
                self.give(Heard(name, answer))  # type: ignore[arg-type]

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
        answer = process.passed()
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
