"""Lines between supervisors: what others on the network say is not listened to."""

import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from treadle.engines.node.peer_link import (
    BYTES_MAX,
    GREETING_BYTES_MAX,
    KEPT_MAX,
    PeerLink,
    Talk,
    key_of,
)
from treadle.engines.node.team_leader import TeamLeader

ORDER = {"job": "j", "attempt": 1, "nonce": "n", "env": {"TREADLE_JOB_TOKEN": "secret"}}
ABOUT = {"node": "n1", "term": 7}


class Wire:
    """The caller's connection and the other's, with a hand on what goes over it."""

    def __init__(self, caller_key: bytes, key: bytes) -> None:
        near, self.near = socket.socketpair()
        far, self.far = socket.socketpair()
        self.caller, self.other = PeerLink(near, caller_key, ABOUT), PeerLink(far, key)
        self.passed: list[tuple[socket.socket, bytes]] = []

    def turn(self) -> tuple[list[Any], list[Any]]:
        """Pass on all that there is; what both heard."""
        heard: tuple[list[Any], list[Any]] = ([], [])
        for _ in range(6):
            for source, target in ((self.near, self.far), (self.far, self.near)):
                while select.select([source], [], [], 0)[0] and (data := source.recv(1 << 20)):
                    self.passed.append((target, data))
                    with suppress(BrokenPipeError):  # The other side has hung up.
                        target.sendall(data)
            heard[0].extend(self.caller.look() if not self.caller.closed else [])
            heard[1].extend(self.other.look() if not self.other.closed else [])
        return heard

    def close(self) -> None:
        for each in (self.caller, self.other, self.near, self.far):
            each.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire(key_of(ORDER), key_of(ORDER))
    yield wire
    wire.close()


def test_both_sides_hear_each_other(wire: Wire) -> None:
    wire.turn()
    assert (wire.caller.open, wire.other.open, wire.other.about) == (True, True, ABOUT)
    wire.caller.say({"has": 1})
    wire.other.say({"launch": "m1"})
    wire.other.say({"text": "x" * 100_000})
    assert wire.turn() == ([{"launch": "m1"}, {"text": "x" * 100_000}], [{"has": 1}])


@pytest.mark.parametrize("name", ["job", "attempt", "nonce", "env"])
def test_one_without_the_key_is_not_let_in(name: str) -> None:
    wire = Wire(key_of({**ORDER, name: {} if name == "env" else 2}), key_of(ORDER))
    assert wire.turn() == ([], [])
    assert (wire.caller.closed, wire.other.open, wire.other.about) == (True, False, None)
    wire.close()


def test_a_line_that_is_changed_or_said_again_ends_the_connection(wire: Wire) -> None:
    wire.turn()
    wire.caller.say({"ended": "m1", "code": 0})
    assert len(wire.turn()[1]) == 1
    target, line = wire.passed[-1]
    target.sendall(line)
    assert wire.turn()[1] == []
    assert wire.other.closed


def test_a_greeting_from_another_connection_is_of_no_use(wire: Wire) -> None:
    wire.turn()
    said = [data for target, data in wire.passed if target is wire.far]
    again = Wire(b"guess", key_of(ORDER))
    again.caller.close()
    for line in said:
        again.far.sendall(line)
    assert again.turn()[1] == []
    assert (again.other.open, again.other.closed) == (False, True)
    again.close()


@pytest.mark.parametrize("words", [b"\xff\n", b"[]\n", b"{}\n", b"x" * (GREETING_BYTES_MAX + 1)])
def test_nonsense_ends_the_connection(wire: Wire, words: bytes) -> None:
    far, theirs = socket.socketpair()
    link = PeerLink(far, key_of(ORDER))
    theirs.sendall(words)
    assert link.look() == []
    assert link.closed
    theirs.close()


def test_what_is_said_has_a_limit(wire: Wire) -> None:
    wire.turn()
    wire.other._in = b"x" * BYTES_MAX
    wire.caller.say({"has": 1})
    wire.turn()
    assert wire.other.closed


def test_members_are_not_read_while_too_much_is_kept_for_a_node_that_is_away() -> None:
    """They wait as soon as their line is full, and nothing that they said is lost."""
    order = {**ORDER, "node": "n0", "address": "127.0.0.1", "action": 3, "part": None}
    leader = TeamLeader(order)
    line = leader.expect("m1", "n1")
    talk = Talk()
    leader._talks["n1"] = "a life", talk
    for number in range(KEPT_MAX):
        assert not talk.full
        leader.say("n1", {"number": number})
    there = leader.descriptors()
    line.send(b"word\n")
    leader.look()
    assert (there, len(talk._said)) == ([], KEPT_MAX)
    near, far = socket.socketpair()
    caller, other = PeerLink(far, key_of(ORDER), ABOUT), PeerLink(near, key_of(ORDER))
    heard: list[Any] = []
    news = Talk()
    news.connect(caller)
    talk.connect(other)
    while len(heard) <= KEPT_MAX:
        leader.look()
        heard += news.look()
    assert heard[-1] == {"to": "m1", "line": "word"}
    assert [each["number"] for each in heard[:-1]] == list(range(KEPT_MAX))
    assert not talk.full
    for each in (line, near, far):
        each.close()
    leader.close(succeeded=False)
