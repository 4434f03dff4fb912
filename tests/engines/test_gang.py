"""An attempt on several nodes: whatever the order of the parts' words, one start and one end."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.actions import Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.attempt import How
from treadle.core.cluster import Device
from treadle.core.errors import EngineError
from treadle.core.events import AttemptEnded, JobStarted, JobStopped
from treadle.core.launch import Launch
from treadle.engines.agent.messages import Refused, Wanted
from treadle.engines.fleet.course import Begin, Course, Effect, Send, Tell
from treadle.engines.fleet.gang import GRANT_OVER, Gang
from treadle.engines.fleet.split import gang_of

NODES = ("a", "b", "c")
ADDRESSES = {node: f"10.0.0.{number}" for number, node in enumerate(NODES)}
SPREAD = Allocation(tuple(Device(node, number) for node in NODES for number in (0, 1)))


def launch(order: Start | Change) -> Launch:
    number = order.id + 1
    return Launch(job="j", attempt=number, command=("x",), workdir="/", ranks=order.allocation.size)


def gang(order: Start | Change) -> Gang:
    return gang_of(order.id, launch(order), order.allocation, ADDRESSES, port=29500)


class Agents:
    """What agents would do with their orders, in an order that is drawn."""

    def __init__(self) -> None:
        self.course = Course("j")
        self.told: list[JobStarted | AttemptEnded] = []
        self.mail: dict[str, list[Wanted]] = {node: [] for node in NODES}  # orders on their way
        self.facts: dict[str, list[object]] = {node: [] for node in NODES}  # answers on their way
        self.running: dict[str, tuple[int, int]] = {}  # by node: (attempt, newest order)
        self.begun: list[Start | Change] = []
        self.heard: list[tuple[int, str, type]] = []  # (attempt, node, kind) of all parts' words

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Tell(fact):
                    assert isinstance(fact, JobStarted | AttemptEnded)
                    if isinstance(fact, JobStarted):
                        self.check_start(fact.attempt)
                    self.told.append(fact)
                case Send(node, wanted):
                    self.mail[node].append(wanted)
                case Begin(order):
                    self.begun.append(order)
                    self.do(self.course.launched(order, gang(order)))

    def check_start(self, attempt: int) -> None:
        """All parts have started, and none has ended badly."""
        started = {
            node for number, node, kind in self.heard if (number, kind) == (attempt, JobStarted)
        }
        assert started == set(NODES)

    def deliver(self, node: str) -> None:
        """The agent of a node takes its next order."""
        if not self.mail[node]:
            return
        wanted = self.mail[node].pop(0)
        number = wanted.attempt.number
        if wanted.allocation is None:
            if self.running.get(node, (0, 0))[0] == number:  # Else it has ended by itself.
                del self.running[node]
                ended = AttemptEnded("j", wanted.action, number, How.STOPPED, 143)
                self.facts[node].append(ended)
        else:
            assert node not in self.running, "two attempts on one node"
            self.running[node] = (number, wanted.action)
            self.facts[node].append(JobStarted("j", wanted.action, 0.0, 1.0, attempt=number))

    def exit(self, node: str, code: int) -> None:
        if node in self.running:
            attempt, order = self.running.pop(node)
            self.facts[node].append(AttemptEnded("j", order, attempt, How.EXITED, code))

    def hear(self, node: str) -> None:
        if self.facts[node]:
            fact = self.facts[node].pop(0)
            assert isinstance(fact, JobStarted | AttemptEnded)
            self.heard.append((fact.attempt, node, type(fact)))
            self.do(self.course.hear(node, fact))

    def settle(self) -> None:
        """All that runs ends, and everything arrives."""
        for _ in range(20):
            for node in NODES:
                while self.mail[node]:
                    self.deliver(node)
                self.exit(node, 0)
                while self.facts[node]:
                    self.hear(node)


step = st.tuples(
    st.sampled_from(["deliver", "hear", "exit", "fail", "stop", "change", "lose"]),
    st.sampled_from(NODES),
)


@given(st.lists(step, max_size=40))
def test_any_order_of_words_gives_one_start_and_one_end(steps):
    """1. A job starts on three nodes. 2. Anything happens. 3. All ends, and everything arrives."""
    agents = Agents()
    start, newest = Start(0, "j", SPREAD), 0
    agents.do(agents.course.order(start, launch))
    for what, node in steps:
        match what:
            case "deliver":
                agents.deliver(node)
            case "hear":
                agents.hear(node)
            case "exit" | "fail":
                agents.exit(node, 0 if what == "exit" else 3)
            case "lose":
                agents.do(agents.course.lose(node))
            case _ if agents.course.busy:
                newest += 1
                action = Stop(newest, "j") if what == "stop" else Change(newest, "j", SPREAD)
                agents.do(agents.course.order(action, launch))
    agents.settle()
    for node in NODES:
        agents.do(agents.course.fence(node))
    agents.settle()
    assert not agents.course.busy
    facts = agents.told
    attempts = {fact.attempt for fact in facts if fact.attempt}
    for attempt in attempts:
        of_it = [type(fact) for fact in facts if fact.attempt == attempt]
        assert of_it in ([AttemptEnded], [JobStarted, AttemptEnded])
    ends = [fact for fact in facts if isinstance(fact, AttemptEnded) and fact.meaning is not None]
    assert max(end.action for end in ends) == newest, "the newest order was not answered"


def ended(
    node: str, code: int, *, how: How = How.EXITED, action: int = 0
) -> tuple[str, AttemptEnded]:
    return node, AttemptEnded("j", action, 1, how, code, codes=(code, code))


def test_a_part_that_fails_ends_the_others_and_says_why():
    course = Course("j")
    course.order(start := Start(0, "j", SPREAD), launch)
    course.launched(start, gang(start))
    effects = course.hear(*ended("b", 3))
    assert [(each.node, each.wanted.allocation) for each in effects if isinstance(each, Send)] == [
        ("a", None),
        ("c", None),
    ]
    assert course.hear(*ended("a", 143, how=How.STOPPED)) == []
    (told,) = course.hear(*ended("c", 1))
    assert isinstance(told, Tell)
    assert isinstance(told.fact, AttemptEnded)
    assert (told.fact.how, told.fact.code) == (How.EXITED, 3)
    assert told.fact.codes == (143, 143, 3, 3, 1, 1)


@pytest.mark.parametrize("how", [How.EXITED, How.LOST])
def test_a_node_that_is_lost_explains_why_its_peers_failed(how):
    """1. A node is cut off. 2. Ranks elsewhere give up, or miss the one that coordinates them.
    3. The cluster notices, and its scheduler orders a stop. 4. Nothing of the lost part runs any
    more: the job is not charged.
    """
    course = Course("j")
    course.order(start := Start(0, "j", SPREAD), launch)
    course.launched(start, gang(start))
    course.hear(*ended("a", 9, how=how))
    course.lose("b")
    course.order(Stop(1, "j"), launch)
    course.hear(*ended("c", 9, how=how))
    (told,) = course.fence("b")
    assert isinstance(told, Tell)
    assert isinstance(told.fact, AttemptEnded)
    assert (told.fact.how, told.fact.action, told.fact.node_lost) == (How.LOST, 1, True)
    assert told.fact.meaning == JobStopped("j", 1, 0.0)


def test_a_part_whose_lease_ran_out_says_that_its_agent_was_away():
    course = Course("j")
    course.order(start := Start(0, "j", SPREAD), launch)
    course.launched(start, gang(start))
    node, fenced = ended("b", 137, how=How.LOST)
    course.hear(node, replace(fenced, node_lost=True))
    course.hear(*ended("a", 143, how=How.STOPPED))
    (told,) = course.hear(*ended("c", 143, how=How.STOPPED))
    assert isinstance(told, Tell)
    assert isinstance(told.fact, AttemptEnded)
    assert (told.fact.how, told.fact.node_lost) == (How.LOST, True)
    assert told.fact.error == GRANT_OVER.format("b")


def test_parts_that_fall_after_an_order_to_stop_were_stopped():
    """1. All parts are ordered to stop. 2. One fails for want of the others, before it hears."""
    course = Course("j")
    course.order(start := Start(0, "j", SPREAD), launch)
    course.launched(start, gang(start))
    course.order(Stop(1, "j"), launch)
    course.hear(*ended("a", 143, how=How.STOPPED, action=1))
    course.hear(*ended("b", 1))  # It failed before the order came.
    (told,) = course.hear(*ended("c", 143, how=How.STOPPED, action=1))
    assert isinstance(told, Tell)
    assert isinstance(told.fact, AttemptEnded)
    assert (told.fact.how, told.fact.action, told.fact.attempt) == (How.STOPPED, 1, 1)


def test_ranks_are_numbered_over_all_nodes():
    seats = gang(Start(0, "j", SPREAD)).seats
    parts = [seat.launch.part for seat in seats.values() if seat.launch and seat.launch.part]
    assert [(part.node_rank, part.first_rank, part.ranks) for part in parts] == [
        (0, 0, 2),
        (1, 2, 2),
        (2, 4, 2),
    ]
    assert {part.world_size for part in parts} == {6}
    assert {part.master for part in parts} == {"10.0.0.0"}


ONE, TWO = (Allocation(SPREAD.devices[:size]) for size in (1, 2))


def running_alone() -> Course:
    course = Course("j")
    course.order(start := Start(0, "j", ONE), launch)
    course.launched(start, gang(start))
    course.hear("a", JobStarted("j", 0, 0.0, 1.0, ("size",), attempt=1))
    return course


def test_a_change_that_cannot_be_launched_ends_the_attempt_before_its_end_is_told():
    """Else what runs would belong to nobody."""

    def nobody_knows(order: Start | Change) -> Launch:
        raise EngineError("it cannot be said", retryable=False)

    course = running_alone()
    (stop,) = course.order(change := Change(1, "j", TWO), nobody_knows)
    assert isinstance(stop, Send)
    assert stop.wanted.allocation is None
    effects = course.hear(*ended("a", 143, how=How.STOPPED, action=1))
    assert [each for each in effects if isinstance(each, Begin)] == [Begin(change)]


def test_an_attempt_that_refused_a_change_is_wanted_as_it_was_before():
    course = running_alone()
    course.order(Change(1, "j", TWO), launch)
    course.hear_refused("a", Refused("j", 1, 1, ("size",), "no", 0.0))
    assert course.gang is not None
    wanted = course.gang.wanted("a")
    assert wanted is not None
    assert (wanted.action, wanted.allocation, wanted.told) == (1, ONE, True)
    assert wanted.launch is not None
    assert (wanted.launch.ranks, wanted.launch.attempt) == (1, 1)
