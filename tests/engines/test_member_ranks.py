"""Ranks as members, for their supervisor: real lines, and ends of ranks."""

import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from treadle.core.member_messages import (
    Answer,
    Arrived,
    Broken,
    Finished,
    Halt,
    Hello,
    Message,
    Ready,
    Switched,
    decode,
    encode,
)
from treadle.engines.node import member_folders
from treadle.engines.node.member_ranks import MemberRanks
from treadle.engines.node.output_capture import Log, Mask
from treadle.engines.node.ranks import Rank


class Attempt:
    """Two ranks whose other ends are held here."""

    def __init__(self, folder: Path) -> None:
        order: dict[str, Any] = {"folder": folder, "tag": "a", "ready_s": 60.0, "action": 1}
        order |= {"devices": [0, 1], "plan": "", "ranks": [{"env": {}}, {"env": {}}]}
        self.told: list[Mapping[str, Any]] = []
        self.members = MemberRanks(order, tell=self.told.append, dismiss=self.dismiss)
        self.dismissed: list[tuple[int, bool]] = []
        self.members.begin(0.0)
        self.ends: list[socket.socket] = []
        self.ranks: list[Rank] = []
        for number, newcomer in enumerate(self.members.starting):
            self.ends.append(socket.socket(fileno=newcomer.channel))
            self.ranks.append(Rank(number, 0, -1, Log(folder, number, 1024), Mask(())))
            self.members.started(newcomer.member, self.ranks[-1], 0.0)
        self.members.starting.clear()
        self.say(Hello(("size", "devices"), 60.0), Ready())
        self.say(Switched(1, 0))

    def dismiss(self, rank: Rank, at_once: bool) -> None:
        self.dismissed.append((rank.number, at_once))

    def say(self, *answers: Answer) -> None:
        for end in self.ends:
            end.sendall(b"".join(map(encode, answers)))
        self.members.look(0.0)

    def heard(self, number: int) -> list[Message | None]:
        return [decode(line) for line in self.ends[number].recv(1 << 16).splitlines()]

    def close(self) -> None:
        self.members.close()
        for end in self.ends:
            end.close()


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attempt]:
    monkeypatch.setattr(member_folders, "MEMORY", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    attempt = Attempt(tmp_path)
    yield attempt
    attempt.close()


def test_a_rank_that_left_its_loop_and_did_not_end_fails_the_attempt(attempt: Attempt) -> None:
    """Its script had an error, and hung before it ended."""
    attempt.ends[1].sendall(encode(Finished()))
    attempt.members.look(0.0)
    attempt.ends[0].sendall(encode(Broken(1)))
    attempt.members.look(0.0)
    attempt.ends[0].sendall(encode(Arrived(2, 8)))
    attempt.members.look(0.0)
    attempt.members.look(60.0)
    assert attempt.dismissed == [(1, True)]
    attempt.ranks[1].code = 137
    assert attempt.members.ended(attempt.ranks[1], 61.0)


def test_an_error_of_one_rank_fails_the_attempt_and_lets_the_others_go(
    attempt: Attempt,
) -> None:
    """They wait for it in a step, and would be killed when their grace is over."""
    attempt.ranks[1].code = 1
    assert attempt.members.ended(attempt.ranks[1], 1.0)
    assert attempt.heard(0)[-1] == Halt(2, None)
