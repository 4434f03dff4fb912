"""The coordinator's lines to its members: real sockets, and members that say strange things."""

import socket
from collections.abc import Iterator

import pytest

from treadle.core.member_facts import Place, Target
from treadle.core.member_messages import (
    LINE_BYTES_MAX,
    Hello,
    Message,
    Ready,
    Switched,
    decode,
    encode,
)
from treadle.engines.node.first_members import environment
from treadle.engines.node.members import Fact, Members

WHERE = "127.0.0.1:4711"


class Attempt:
    """Members whose other ends are held here."""

    def __init__(self) -> None:
        self.ends: dict[str, socket.socket] = {}
        self.dismissed: list[tuple[str, bool]] = []
        self.facts: list[Fact] = []
        self.met: list[str] = []  # with which interpreters
        self.members = Members(
            WHERE,
            launch=self.launch,
            dismiss=self.dismiss,
            report=self.facts.append,
            meet=self.met.append,
        )

    def launch(self, member: str, place: Place, descriptor: int, joins: bool) -> None:
        self.ends[member] = socket.socket(fileno=socket.dup(descriptor))

    def dismiss(self, member: str, at_once: bool) -> None:
        self.dismissed.append((member, at_once))

    def says(self, member: str, data: bytes) -> None:
        self.ends[member].sendall(data)
        for descriptor, name in self.members.descriptors().items():
            if name == member:
                self.members.readable(descriptor, 0.0)

    def hears(self, member: str) -> list[Message | None]:
        self.ends[member].setblocking(False)
        return [decode(line) for line in self.ends[member].recv(1 << 16).splitlines()]

    def close(self) -> None:
        self.members.close()
        for end in self.ends.values():
            end.close()


@pytest.fixture
def attempt() -> Iterator[Attempt]:
    attempt = Attempt()
    attempt.members.order(Target(1, (("a",), ("b",))), 0.0)
    yield attempt
    attempt.close()


def _started(attempt: Attempt) -> None:
    for member in ("m0", "m1"):
        attempt.says(member, encode(Hello(("size", "devices"), 60.0)) + encode(Ready()))
    for member in ("m0", "m1"):
        attempt.says(member, encode(Switched(1, 0)))


def test_members_meet_where_the_store_is_served_before_they_are_told_to(attempt: Attempt) -> None:
    attempt.says("m0", encode(Hello((), 60.0, "/usr/bin/python3.9")))
    assert attempt.met == ["/usr/bin/python3.9"]
    _started(attempt)
    (form,) = attempt.hears("m0")
    assert form.rendezvous == f"tcp:{WHERE}-1"  # type: ignore[union-attr]
    assert [type(fact).__name__ for fact in attempt.facts] == ["Changed"]
    assert set(attempt.met) == {"/usr/bin/python3.9"}


def test_one_alone_needs_no_store() -> None:
    attempt = Attempt()
    attempt.members.order(Target(1, (("a",),)), 0.0)
    attempt.says("m0", encode(Hello((), 60.0, "python")) + encode(Ready()))
    assert attempt.met == []
    attempt.members.order(Target(2, (("a",), ("b",))), 0.0)
    attempt.says("m0", encode(Switched(1, 0)))
    assert attempt.met == ["python"]
    attempt.close()


def test_what_all_members_can_is_what_the_attempt_can(attempt: Attempt) -> None:
    attempt.says("m0", encode(Hello(("devices", "size"), 60.0)))
    assert not attempt.members.can
    attempt.says("m1", encode(Hello(("size",), 60.0)))
    assert list(attempt.members.can) == ["size"]


def test_lines_may_come_in_pieces(attempt: Attempt) -> None:
    line = encode(Hello(("size",), 60.0))
    for byte in line:
        attempt.says("m0", bytes([byte]))
    attempt.says("m1", line)
    assert attempt.members.can == ("size",)


@pytest.mark.parametrize(
    "garbage", [b"hello\n", b"\xff\n", b"[" * 50_000 + b"\n", b'{"kind": "At"}\n']
)
def test_garbage_ends_the_talk_and_not_the_process(attempt: Attempt, garbage: bytes) -> None:
    attempt.says("m0", garbage)
    assert list(attempt.members.descriptors().values()) == ["m1"]
    assert attempt.dismissed == []


def test_a_line_without_an_end_is_not_collected_for_ever(attempt: Attempt) -> None:
    for _ in range(3):
        if "m0" in attempt.members.descriptors().values():
            attempt.says("m0", b"x" * (LINE_BYTES_MAX // 2 + 1))
    assert list(attempt.members.descriptors().values()) == ["m1"]


def test_orders_are_no_answers(attempt: Attempt) -> None:
    attempt.says("m0", b'{"kind": "Done"}\n{"kind": "Halt", "version": 1}\n')
    assert len(attempt.members.descriptors()) == 2


def test_what_a_member_said_before_it_ended_counts(attempt: Attempt) -> None:
    _started(attempt)
    attempt.ends["m1"].sendall(encode(Hello((), 60.0)))
    attempt.ends["m1"].close()
    attempt.members.ended("m1", 0.0)
    assert [type(fact).__name__ for fact in attempt.facts] == ["Changed", "Lost"]
    assert list(attempt.members.descriptors().values()) == ["m0"]


def test_a_member_that_does_not_read_does_not_block_the_coordinator(attempt: Attempt) -> None:
    _started(attempt)
    for number in range(2, 4000):
        places = (("a",), ("b",)) if number % 2 else (("a",),)
        attempt.members.order(Target(number, places), float(number))
        attempt.members.tick(number + 20.5)
    assert attempt.members.machine.members


def test_the_environment_of_a_member() -> None:
    assert environment("m3", WHERE, 7, joins=True, asked=4) == {
        "TREADLE_MEMBER": "m3",
        "TREADLE_CHANNEL": "7",
        "TREADLE_MEETING": WHERE,
        "TREADLE_JOINS": "1",
        "TREADLE_ASKED": "4",
    }
