"""The coordinator's lines to its members: real sockets, and members that say strange things."""

import socket
from collections.abc import Iterator
from pathlib import Path

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


class Attempt:
    """Members whose other ends are held here."""

    def __init__(self, folder: Path) -> None:
        self.ends: dict[str, socket.socket] = {}
        self.dismissed: list[tuple[str, bool]] = []
        self.facts: list[Fact] = []
        self.members = Members(
            str(folder), launch=self.launch, dismiss=self.dismiss, report=self.facts.append
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


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Attempt]:
    attempt = Attempt(tmp_path)
    attempt.members.order(Target(1, (("a",), ("b",))), 0.0)
    yield attempt
    attempt.members.close()
    for end in attempt.ends.values():
        end.close()


def _started(attempt: Attempt) -> None:
    for member in ("m0", "m1"):
        attempt.says(member, encode(Hello(("size", "devices"), 60.0)) + encode(Ready()))
    for member in ("m0", "m1"):
        attempt.says(member, encode(Switched(1, 0)))


def test_members_form_a_group_through_a_file_in_the_folder(
    attempt: Attempt, tmp_path: Path
) -> None:
    (tmp_path / "group-1").touch()
    _started(attempt)
    (form,) = attempt.hears("m0")
    assert form.rendezvous == f"file:{tmp_path}/group-1"  # type: ignore[union-attr]
    assert [type(fact).__name__ for fact in attempt.facts] == ["Changed"]
    assert not (tmp_path / "group-1").exists(), "the group stands"


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


def test_the_environment_of_a_member(tmp_path: Path) -> None:
    assert environment("m3", str(tmp_path), 7, joins=True, asked=4) == {
        "TREADLE_MEMBER": "m3",
        "TREADLE_CHANNEL": "7",
        "TREADLE_GROUP_DIR": str(tmp_path),
        "TREADLE_JOINS": "1",
        "TREADLE_ASKED": "4",
    }
