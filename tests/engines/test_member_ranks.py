"""Ranks as members, for their supervisor: real lines, and ends of ranks."""

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from treadle.core.live_plans import leader
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
from treadle.engines.node import memory_folder
from treadle.engines.node.first_members import FirstMembers
from treadle.engines.node.member_ranks import MemberRanks
from treadle.engines.node.members_files import TARGET
from treadle.engines.node.output_capture import Log, Mask
from treadle.engines.node.ranks import Rank

ALONE = {"address": "", "interface": "", "part": None}  # no other node can take part


class Attempt:
    """Two ranks whose other ends are held here."""

    def __init__(self, folder: Path) -> None:
        order: dict[str, Any] = {"folder": folder, "tag": "a", "ready_s": 60.0, "action": 1}
        order |= {"devices": [0, 1], "plan": "", "ranks": [{"env": {}}, {"env": {}}], **ALONE}
        self.folder = folder
        self.told: list[Mapping[str, Any]] = []
        self.dismissed: list[tuple[int, bool]] = []
        self.ends: list[socket.socket] = []
        self.ranks: list[Rank] = []
        self.first = FirstMembers(order)
        for number, newcomer in enumerate(self.first.newcomers(0.0)):
            self.ends.append(socket.socket(fileno=newcomer.channel))
            self.ranks.append(
                Rank(number, 0, -1, Log(str(folder), f"rank-{number}", 1024), Mask(()))
            )
        self.members = MemberRanks(
            self.first, self.ranks, tell=self.told.append, dismiss=self.dismiss
        )
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
        self.first.close()
        for end in self.ends:
            end.close()


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attempt]:
    monkeypatch.setattr(memory_folder, "MEMORY", str(tmp_path))
    attempt = Attempt(tmp_path)
    yield attempt
    attempt.close()


def test_ranks_that_close_their_lines_have_not_spoken(tmp_path: Path) -> None:
    order: dict[str, Any] = {"tag": "a", "devices": [0, 1], "plan": "", **ALONE}
    order["ranks"] = [{"env": {}}, {"env": {}}]
    first = FirstMembers(order)
    ends = [socket.socket(fileno=newcomer.channel) for newcomer in first.newcomers(0.0)]
    ends[0].close()
    first.hear(first.descriptors())
    assert (len(first.descriptors()), first.spoken) == (1, False)
    ends[1].sendall(encode(Hello()))
    first.hear(first.descriptors())
    assert first.spoken
    first.close()
    ends[1].close()


@pytest.mark.parametrize(("address", "leads"), [("127.0.0.2", True), ("203.0.113.9", False)])
def test_members_stay_on_their_node_if_no_other_can_reach_it(address: str, leads: bool) -> None:
    order: dict[str, Any] = {"tag": "a", "devices": [], "plan": "", "ranks": [], "env": {}, **ALONE}
    order |= {"address": address, "node": "n0", "job": "j", "attempt": 1, "nonce": "", "action": 5}
    first = FirstMembers(order)
    found = None if first.leader is None else leader((first.leader.word,))
    assert (found is not None and (found.node, found.term) == ("n0", 5)) is leads
    assert first.meeting.where.startswith(address if leads else "127.0.0.1:")
    first.close()


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


def test_an_error_of_one_rank_fails_the_attempt_and_lets_the_others_go(attempt: Attempt) -> None:
    """They wait for it in a step, and would be killed when their grace is over."""
    attempt.ranks[1].code = 1
    assert attempt.members.ended(attempt.ranks[1], 1.0)
    assert attempt.heard(0)[-1] == Halt(2, None)


def _end(attempt: Attempt, number: int, code: int) -> bool:
    attempt.ranks[number].code = code
    return attempt.members.ended(attempt.ranks[number], 1.0)


def test_a_rank_that_leaves_its_loop_with_0_fails_the_attempt_if_others_train_on(
    attempt: Attempt,
) -> None:
    attempt.ends[1].sendall(encode(Finished()))
    attempt.members.look(0.0)
    assert not _end(attempt, 1, 0)  # The others may be about to leave as well.
    attempt.ends[0].sendall(encode(Arrived(2, 8)) + encode(Switched(2, 8)))
    attempt.members.look(1.0)
    assert attempt.members.failed == 1
    assert not attempt.members.succeeded


def test_ranks_that_all_leave_their_loops_have_succeeded(attempt: Attempt) -> None:
    """They decided the same, and one is slower."""
    attempt.ends[1].sendall(encode(Finished()))
    attempt.members.look(0.0)
    assert not _end(attempt, 1, 0)
    attempt.ends[0].sendall(encode(Finished()))
    attempt.members.look(1.0)
    assert not _end(attempt, 0, 0)
    assert attempt.members.failed is None
    assert attempt.members.succeeded


def test_a_training_that_is_over_stays_so_while_a_loss_is_recovered(attempt: Attempt) -> None:
    """1. The first has finished. 2. The second is killed. 3. The first waits for a group of one."""
    attempt.ends[0].sendall(encode(Finished()))
    attempt.members.look(0.0)
    _end(attempt, 1, 137)
    attempt.members.look(1.0)
    assert attempt.heard(0)[-1] == Halt(2, None)
    assert [each["members"]["over"] for each in attempt.told][-1]
    assert attempt.members.members.machine.is_over


def test_a_newcomer_that_the_end_dismissed_does_not_count(attempt: Attempt) -> None:
    """It ends with 143, as it was asked to, after the training is over."""
    target: dict[str, Any] = {
        "action": 2,
        "devices": [0, 1, 2],
        "ranks": [{"env": {}}] * 3,
        "plan": "",
        **ALONE,
    }
    (attempt.folder / TARGET).write_text(json.dumps(target))
    attempt.members.take_target(1.0)
    rank = Rank(2, 0, -1, Log(str(attempt.folder), "rank-2", 1024), Mask(()))
    newcomer = attempt.members.starting.pop()
    attempt.ends.append(socket.socket(fileno=newcomer.channel))
    attempt.ranks.append(rank)
    attempt.members.started(newcomer.member, rank, 1.0)
    for end in attempt.ends[:2]:
        end.sendall(encode(Finished()))
    attempt.members.look(1.0)
    assert attempt.dismissed == [(2, False)]
    for number, code in ((2, 143), (0, 0), (1, 0)):
        assert not _end(attempt, number, code)
    assert attempt.members.succeeded
