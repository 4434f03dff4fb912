"""No two attempts of one job may run at the same time, whatever nodes, messages and clocks do."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.shared import THOROUGH

from treadle.engines.agent import grants
from treadle.engines.agent.grants import DRIFT, MARGIN_S, Grant
from treadle.engines.context import FAILOVER_S

NODES = ("a", "b", "c")
FAILOVERS_S = (15.0, 600.0, 50_000.0, grants.limit(None))
KILLED_S = MARGIN_S - 0.5  # at most, from the end of a grant until the ranks are dead
nodes = st.sampled_from(NODES)
steps_s = st.sampled_from((0.1, 3.0, 14.0, 30.0, 599.0, 49_990.0))


@dataclass
class Node:
    """What is true of it."""

    rate: float  # of its clock
    member: int | None = 1  # which joining, as its cluster says; None: it left
    joinings: int = 1
    boot: int = 0
    grant: Grant = field(default_factory=Grant)
    failover_s: float = 15.0  # that its agent was given
    epoch: int = 0  # of the newest controller that it has heard
    runs: dict[int, int] = field(default_factory=dict)  # attempts, and the grant of each
    answers: list[tuple[float, int]] = field(
        default_factory=list
    )  # on their way: asked at, joining

    @property
    def machine(self) -> str:
        return f"hardware/{self.boot}/folder"


@dataclass
class Controller:
    """What it knows."""

    epoch: int
    failover_s: float
    rate: float
    away: dict[str, float] = field(default_factory=dict)  # by its clock, since it heard of that
    charged: set[str] = field(default_factory=set)


class Grants(RuleBasedStateMachine):
    """One job, three nodes, and one controller after the other."""

    @initialize(rates=st.lists(st.sampled_from((-1.0, 0.0, 1.0)), min_size=4, max_size=4))
    def begin(self, rates: list[float]) -> None:
        self.now = 1000.0
        speeds = [1.0 + rate * DRIFT / 2 for rate in rates]
        self.nodes = {name: Node(speed) for name, speed in zip(NODES, speeds, strict=False)}
        self.known: dict[str, float] = {}  # what is written down of each node
        self.controller = Controller(1, FAILOVERS_S[0], speeds[-1])
        self.attempts = 0
        self.on: tuple[str, str] | None = None  # where the newest is, and which machine that was
        self.operator = False
        for name in NODES:
            self.ask(name)
            self.answer(name, twice=False)
            self.take_charge(name)

    def clock(self, node: Node) -> float:
        return self.now * node.rate

    def own_clock(self) -> float:
        return self.now * self.controller.rate

    # -- nodes and their cluster ----------------------------------------------------------------

    @rule(seconds=steps_s)
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for node in self.nodes.values():
            for attempt, grant in list(node.runs.items()):
                until = node.grant.until if node.grant.number == grant else 0.0
                if self.clock(node) >= until + KILLED_S:
                    del node.runs[attempt]

    @rule(seconds=steps_s)
    def wait_in_contact(self, seconds: float) -> None:
        """Members are confirmed every few seconds, as long as they are members."""
        ends = self.now + seconds
        for node in self.nodes.values():
            renewed = node.grant.member == str(node.member)
            if renewed and not node.grant.is_over(self.clock(node)):
                until = ends * node.rate + node.failover_s
                node.grant = node.grant._replace(until=until)
        self.wait(seconds)

    @rule()
    def catch_up(self) -> None:
        """The controller hears all that there is, and takes charge of all members."""
        for name in NODES:
            self.hear(name)
            self.ask(name)
            while self.nodes[name].answers:
                self.answer(name, twice=False)
            self.take_charge(name)

    @rule(name=nodes)
    def ask(self, name: str) -> None:
        node = self.nodes[name]
        if node.member is not None:
            node.answers.append((self.clock(node), node.member))

    @rule(name=nodes, twice=st.booleans())
    def answer(self, name: str, twice: bool) -> None:
        """Late perhaps, and perhaps not the only time; a joining takes its own answers alone."""
        node = self.nodes[name]
        if node.answers:
            asked_at, joining = node.answers[0] if twice else node.answers.pop(0)
            if joining == node.joinings:
                self.renew(node, asked_at)

    def renew(self, node: Node, asked_at: float) -> None:
        member = str(node.joinings)
        node.grant = node.grant.renewed(self.clock(node), asked_at, node.failover_s, member)

    @rule(name=nodes)
    def lose_answer(self, name: str) -> None:
        self.nodes[name].answers[:1] = []

    @rule(name=nodes)
    def leave(self, name: str) -> None:
        self.nodes[name].member = None

    @rule(name=nodes)
    def join(self, name: str) -> None:
        node = self.nodes[name]
        if node.member is None:
            node.joinings += 1
            node.member = node.joinings
            node.answers.clear()  # Its agent is another one.

    @rule(name=nodes)
    def join_and_be_confirmed(self, name: str) -> None:
        self.join(name)
        self.ask(name)
        self.answer(name, twice=True)

    @rule(name=nodes)
    def leave_and_be_missed(self, name: str) -> None:
        """With an answer under way, perhaps."""
        self.ask(name)
        self.leave(name)
        self.hear(name)

    @rule(name=nodes)
    def reboot(self, name: str) -> None:
        node = self.nodes[name]
        node.boot += 1
        node.runs.clear()
        node.grant = Grant(node.grant.number)
        node.member = None

    # -- controllers ----------------------------------------------------------------------------

    @rule(name=nodes)
    def hear(self, name: str) -> None:
        """The controller hears how things are, late perhaps."""
        if self.nodes[name].member is None:
            self.controller.charged.discard(name)
            self.controller.away.setdefault(name, self.own_clock())
            return
        self.controller.away.pop(name, None)

    @rule(name=nodes)
    def take_charge(self, name: str) -> None:
        """What it does not name is stopped; what runs goes on under the grant that there is."""
        node, controller = self.nodes[name], self.controller
        there = node.member is not None and name not in controller.away
        if not there or controller.epoch < node.epoch:
            return
        node.epoch, node.failover_s = controller.epoch, controller.failover_s
        if node.grant.is_over(self.clock(node)):
            return
        named = {self.attempts} if self.on is not None and self.on[0] == name else set()
        node.runs = {mark: grant for mark, grant in node.runs.items() if mark in named}
        node.grant = node.grant.kept(self.clock(node), str(node.member))
        left_s = node.grant.until - self.clock(node)
        self.known[name] = max(node.failover_s, left_s)
        controller.charged.add(name)
        if named and not node.runs:
            self.on = None  # Its agent says that it is over.

    @rule(failover_s=st.sampled_from(FAILOVERS_S))
    def take_over(self, failover_s: float) -> None:
        """Another controller; members get its time with the next answer of theirs."""
        self.known = {name: max(known, failover_s) for name, known in self.known.items()}
        before = self.controller
        self.controller = Controller(before.epoch + 1, failover_s, before.rate)
        for name, node in self.nodes.items():
            if node.member is None:
                self.controller.away[name] = self.own_clock()

    @precondition(lambda self: self.on is None)
    @rule(name=nodes)
    def start(self, name: str) -> None:
        node, controller = self.nodes[name], self.controller
        heard = name in controller.charged and controller.epoch == node.epoch
        if heard and not node.grant.is_over(self.clock(node)):
            self.attempts += 1
            node.runs[self.attempts] = node.grant.number
            self.on = name, node.machine

    @precondition(lambda self: self.on is not None)
    @rule()
    def fence(self) -> None:
        """Its time is over, or its machine was started again: the job may start elsewhere."""
        assert self.on is not None
        name, machine = self.on
        since, node = self.controller.away.get(name), self.nodes[name]
        longest_s = grants.longest_s(self.controller.failover_s, self.known.get(name))
        over = since is not None and self.own_clock() >= since + grants.gone_after_s(longest_s)
        heard = since is None and node.member is not None
        if over or (heard and grants.rebooted(machine, node.machine)):
            self.on = None

    @invariant()
    def one_attempt_at_a_time(self) -> None:
        running = [mark for node in getattr(self, "nodes", {}).values() for mark in node.runs]
        assert len(running) <= 1, running


Grants.TestCase.settings = settings(
    max_examples=2000 if THOROUGH else 150, stateful_step_count=60, deadline=None
)
TestGrants: Callable[..., object] = Grants.TestCase


def one_runs_on_a(failover_s: float = 15.0, *, slow: float = 0.0) -> Grants:
    """slow: how the clock of the node and that of the controller drift apart, from 0 to 1."""
    world = Grants()
    world.begin(rates=[-slow, 0.0, 0.0, slow])
    world.take_over(failover_s)
    world.catch_up()
    world.start("a")
    world.leave_and_be_missed("a")
    return world


def begins_elsewhere(world: Grants, after_s: float) -> bool:
    world.wait_in_contact(after_s)
    if world.on is not None:
        world.fence()
    if world.on is None:
        world.start("b")
    world.one_attempt_at_a_time()
    return world.attempts == 2


def test_an_answer_that_comes_late_grants_no_more_than_when_it_was_asked_for():
    world = one_runs_on_a()
    world.wait(14.0)
    world.answer("a", twice=False)
    assert begins_elsewhere(world, 14.0)


def test_a_node_that_is_back_is_granted_nothing_before_its_controller_knows():
    world = one_runs_on_a()
    world.wait(14.0)
    world.join_and_be_confirmed("a")
    assert begins_elsewhere(world, 14.0)


def test_the_time_is_counted_by_the_slower_clock():
    world = one_runs_on_a(50_000.0, slow=1.0)
    assert not begins_elsewhere(world, 50_004.0)
    assert begins_elsewhere(world, 60.0)


def test_the_longer_failover_is_waited_out_by_a_controller_with_a_shorter_one():
    world = one_runs_on_a(600.0)
    world.take_over(15.0)
    world.catch_up()
    assert not begins_elsewhere(world, 599.0)
    assert begins_elsewhere(world, 30.0)


def test_never_is_never():
    assert not begins_elsewhere(one_runs_on_a(grants.limit(None)), 1e9)


def test_a_node_of_which_nothing_is_known_is_waited_for_as_by_default():
    assert grants.longest_s(15.0, None) == FAILOVER_S
    assert grants.longest_s(15.0, 30.0) == 30.0
    assert grants.longest_s(grants.limit(None), 30.0) == grants.limit(None)


def test_a_machine_is_known_to_be_the_same_by_its_hardware_and_its_disk():
    assert grants.rebooted("h/1/f", "h/2/f")
    same, other_disk, other, unknown = "h/1/f", "h/2/g", "i/2/f", "/2/f"
    assert not any(grants.rebooted("h/1/f", each) for each in (same, other_disk, other, unknown))
    assert not grants.rebooted("/1/f", "/2/f"), "it may be another one with the same disk"
