"""Turns: one holder for each resource, fair, nobody starves, the dead hold nothing."""

from heapq import heapify, heappop

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from treadle.engines.node.turns import LEASE_S, Turns, Way

GPU, CPU = "gpu:0", "cpu"


def test_a_turn_has_one_holder_and_the_next_gets_it_when_it_is_given_back() -> None:
    turns = Turns()
    turns.join("a", {GPU})
    turns.join("b", {GPU})
    assert turns.ask("a", {GPU}, 0.0) == ["a"]
    assert turns.ask("b", {GPU}, 0.1) == []
    assert turns.done("a", 0.2) == ["b"]


def played(turns: Turns, stage_s: dict[str, float], gap_s: float, until: float) -> dict[str, float]:
    """Seconds that each had the device, if all ask again that soon after each turn."""
    used = dict.fromkeys(stage_s, 0.0)
    due = [(0.0, name, "ask") for name in stage_s]
    now = 0.0
    while now < until:
        heapify(due)
        tick = turns.expires_at(now)
        at, name, what = min(due[0], (tick, "", "tick"))
        now = at
        if what == "tick":
            granted = turns.expire(now)
        elif what == "ask":
            heappop(due)
            granted = turns.ask(name, {GPU}, now)
        else:
            heappop(due)
            used[name] += stage_s[name]
            due.append((now + gap_s, name, "ask"))
            granted = turns.done(name, now)
        due += [(now + stage_s[each], each, "done") for each in granted]
    return used


def test_who_used_least_is_next_however_long_its_stages_are() -> None:
    turns = Turns()
    turns.join("short", {GPU})
    turns.join("long", {GPU})
    used = played(turns, {"short": 0.005, "long": 0.03}, 0.0005, 20.0)
    assert 0.9 < used["long"] / used["short"] < 1.1
    assert sum(used.values()) > 0.85 * 20.0


def test_nobody_waits_for_one_that_stays_away() -> None:
    """It works elsewhere for 50 ms between its turns: the device is not kept free for it."""
    turns = Turns()
    turns.join("away", {GPU})
    turns.join("there", {GPU})
    turns.ask("away", {GPU}, 0.0)
    turns.done("away", 0.001)
    turns.ask("away", {GPU}, 0.051)
    turns.done("away", 0.052)
    for n in range(100):
        assert turns.ask("there", {GPU}, 0.0521 + n) == ["there"]


def test_a_short_stage_is_not_held_to_the_pace_of_a_long_one() -> None:
    """A job that uses the device 5 ms in 100 waits for one stage of the long one at most."""
    turns = Turns()
    turns.join("long", {GPU})
    turns.join("short", {GPU})
    turns.ask("long", {GPU}, 0.0)
    turns.ask("short", {GPU}, 0.001)
    granted = turns.done("long", 0.03)
    assert granted == ["short"]
    turns.ask("long", {GPU}, 0.03)
    assert turns.done("short", 0.035) == ["long"]


def test_all_resources_of_a_stage_come_at_once() -> None:
    turns = Turns()
    both = {"gpu:0", "gpu:1"}
    turns.join("gang", both)
    turns.join("one", {"gpu:1"})
    assert turns.ask("one", {"gpu:1"}, 0.0) == ["one"]
    assert turns.ask("gang", both, 0.1) == []
    assert turns.clients["gang"].holds == frozenset()
    assert turns.done("one", 0.2) == ["gang"]


def test_the_dead_hold_nothing() -> None:
    turns = Turns()
    turns.join("a", {GPU})
    turns.join("b", {GPU})
    turns.ask("a", {GPU}, 0.0)
    turns.ask("b", {GPU}, 0.0)
    assert turns.leave("a", 0.05) == ["b"]


def test_a_turn_that_others_wait_for_is_taken_back() -> None:
    turns = Turns()
    turns.join("stuck", {GPU})
    turns.join("b", {GPU})
    turns.ask("stuck", {GPU}, 0.0)
    assert turns.expires_at(0.5) > 1e9, "nobody waits for it"
    turns.ask("b", {GPU}, 1.0)
    assert turns.expires_at(1.0) == LEASE_S
    assert turns.expire(LEASE_S) == ["b"]
    assert turns.revoked == 1


def test_in_strict_order_everybody_advances_one_stage_a_round() -> None:
    turns = Turns(Way.STRICT)
    turns.join("a", {GPU, CPU})
    turns.join("b", {GPU, CPU})
    assert turns.ask("a", {GPU}, 0.0) == [], "the round waits for everybody"
    assert set(turns.ask("b", {CPU}, 0.0)) == {"a", "b"}
    assert turns.ask("b", {GPU}, 0.1) == [], "it had its stage"
    assert turns.ask("a", {CPU}, 0.3) == ["b", "a"]


class Machine(RuleBasedStateMachine):
    """Jobs that come, ask, finish and die, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.turns, self.now, self.made = Turns(), 0.0, 0
        self.granted: set[str] = set()
        self.asked_at: dict[str, float] = {}

    def heard(self, names: list[str]) -> None:
        for name in names:
            self.asked_at.pop(name)
            self.granted.add(name)

    @precondition(lambda self: len(self.turns.clients) < 5)
    @rule(resources=st.sets(st.sampled_from(["gpu:0", "gpu:1", "cpu"]), min_size=1))
    def join(self, resources: set[str]) -> None:
        self.made += 1
        self.turns.join(f"j{self.made}", resources)

    @precondition(lambda self: self.turns.clients)
    @rule(data=st.data(), s=st.floats(0.001, 0.1))
    def ask_or_finish(self, data: st.DataObject, s: float) -> None:
        self.now += s
        name = data.draw(st.sampled_from(sorted(self.turns.clients)))
        client = self.turns.clients[name]
        if client.holds:
            self.granted.discard(name)
            self.heard(self.turns.done(name, self.now))
        elif not client.wants:
            self.granted.discard(name)
            self.asked_at[name] = self.now
            wanted = data.draw(st.sets(st.sampled_from(sorted(client.resources)), min_size=1))
            self.heard(self.turns.ask(name, wanted, self.now))

    @precondition(lambda self: self.turns.clients)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.turns.clients)))
        self.granted.discard(name)
        self.asked_at.pop(name, None)
        self.heard(self.turns.leave(name, self.now))

    @rule()
    def time_passes(self) -> None:
        due = self.turns.expires_at(self.now)
        if due < 1e9:
            self.now = max(self.now, due)
            self.heard(self.turns.expire(self.now))

    @invariant()
    def one_holder_each(self) -> None:
        held = [each for client in self.turns.clients.values() for each in client.holds]
        assert len(held) == len(set(held))

    @invariant()
    def nobody_waits_for_what_is_free(self) -> None:
        """Some waiting client is always next: everything it wants is held, or it was granted."""
        held = {each for client in self.turns.clients.values() for each in client.holds}
        waiting = [client for client in self.turns.clients.values() if client.wants]
        expected = any(c.expected_until(self.now) > self.now for c in self.turns.clients.values())
        assert not waiting or expected or any(client.wants & held for client in waiting)

    def teardown(self) -> None:
        """Everybody who waits gets their turn if the others go on."""
        for _ in range(200):
            if not any(client.wants for client in self.turns.clients.values()):
                return
            self.now += LEASE_S
            self.heard(self.turns.expire(self.now))
        raise AssertionError("somebody waits for ever")


TestTurns = Machine.TestCase
TestTurns.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_strict_rounds_are_of_those_who_share() -> None:
    """A client on another device, which asks for nothing, holds up no round."""
    turns = Turns(Way.STRICT)
    for name, resource in (("a", GPU), ("b", GPU), ("z", "gpu:5")):
        turns.join(name, {resource})
    turns.ask("a", {GPU}, 0.0)
    assert turns.ask("b", {GPU}, 0.0) == ["a"]
    assert turns.done("a", 1.0) == [], "it is between two stages"
    assert turns.ask("a", {GPU}, 1.1) == ["b"]
