"""Supervisors of one attempt on several nodes: cuts lose nothing, and older terms are refused."""

import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.core.member_messages import Hello, Prepare, Ready, encode
from treadle.engines.node.members_files import TARGET
from treadle.engines.node.output_capture import Log, Mask
from treadle.engines.node.peer_link import PeerLink, Talk
from treadle.engines.node.ranks import Rank
from treadle.engines.node.team_leader import TeamLeader
from treadle.engines.node.team_member import TeamMember

HERE, ROUNDS = "127.0.0.1", 500


class Cuts:
    """Two sides of a talk; what each says is a number."""

    def __init__(self) -> None:
        self.near, self.far = Talk(), Talk()
        self.heard: dict[Talk, list[int]] = {self.near: [], self.far: []}
        self.said = {self.near: 0, self.far: 0}
        self.connect()

    def connect(self) -> None:
        ours, theirs = socket.socketpair()
        answers, words = PeerLink(theirs, b"k"), list[Mapping[str, Any]]()
        self.links = PeerLink(ours, b"k", {"node": "n1"}), answers
        self.near.connect(self.links[0])
        while answers.about is None:
            self.hear(self.near, self.near.look())
            words = answers.look()
        self.hear(self.far, self.far.connect(answers, words))

    def hear(self, talk: Talk, messages: Iterable[Mapping[str, Any]]) -> None:
        self.heard[talk] += [message["n"] for message in messages]

    def say(self, talk: Talk) -> None:
        talk.say({"n": self.said[talk]})
        self.said[talk] += 1

    def look(self) -> None:
        for talk in (self.near, self.far):
            self.hear(talk, talk.look())

    def cut(self) -> None:
        """With what is on its way."""
        for link in self.links:
            link.close()
        self.connect()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["near", "far", "look", "look", "cut"]), max_size=60))
def test_all_is_heard_once_and_in_order_whatever_is_cut(steps: list[str]) -> None:
    cuts = Cuts()
    near, far = cuts.near, cuts.far
    does: dict[str, Callable[[], None]] = {"look": cuts.look, "cut": cuts.cut}
    does |= {"near": partial(cuts.say, near), "far": partial(cuts.say, far)}
    for step in [*steps, *("look",) * 4]:
        does[step]()
    said = cuts.said
    assert cuts.heard == {near: [*range(said[far])], far: [*range(said[near])]}
    near.close()
    far.close()


class Story:
    """A supervisor's part of an attempt, and coordinators that it is told of."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.leaders = folder, dict[int, TeamLeader]()
        self.order: dict[str, Any] = {"job": "j", "attempt": 1, "nonce": "n", "env": {}}
        self.order |= {"folder": str(folder), "tag": "a", "node": "n1", "address": HERE, "plan": ""}
        self.order |= {"devices": [0], "ranks": [{"env": {}}], "interface": "", "action": 0}
        first = self.lead(0)
        self.part = TeamMember(
            {**self.order, "part": {"first_rank": 1, "plan": "", "team": self.team(first)}},
            tell=lambda _: None,
            dismiss=lambda *_: None,
        )
        self.until(lambda: self.part.welcome)
        (newcomer,) = self.part.newcomers()
        self.member, self.end = newcomer.member, socket.socket(fileno=newcomer.channel)
        self.end.setblocking(False)
        self.part.started(self.member, Rank(0, 0, -1, Log(str(folder), "0", 9), Mask(())), 0.0)
        self.end.sendall(encode(Hello(("size",))) + encode(Ready()))
        self.part.look(0.0)

    def lead(self, term: int) -> TeamLeader:
        """A coordinator on another node."""
        leader = self.leaders[term] = TeamLeader(
            {**self.order, "node": f"m{term}", "action": term, "part": None}
        )
        leader.listen()
        return leader

    def team(self, leader: TeamLeader) -> Mapping[str, Any]:
        return {**leader.team, "node": "n1", "devices": [["n1", 0]]}

    def target(self, term: int) -> None:
        """The agent of this node is told that the coordinator of that term leads."""
        team = self.team(self.leaders[term])
        target = {"action": term, "devices": [0], "ranks": [{"env": {}}], "part": {"team": team}}
        (self.folder / TARGET).write_text(json.dumps(target))
        assert self.part.take_target(0.0) is None

    def until(self, true: Callable[[], object]) -> None:
        for now in range(ROUNDS):
            self.part.look(float(now))
            for leader in self.leaders.values():
                leader.look()
            if true():
                return
        raise AssertionError("it does not come true")

    def orders(self) -> bytes:
        """What the member was told since the last call."""
        try:
            return self.end.recv(1 << 16)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.part.close()
        self.end.close()
        for leader in self.leaders.values():
            leader.close(succeeded=False)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.close()


def test_the_next_coordinator_is_told_of_members_and_the_last_one_is_not_heard(
    story: Story,
) -> None:
    old, new = story.leaders[0], story.lead(7)
    line = old.expect(story.member, "n1")
    line.sendall(encode(Prepare(1)))
    story.until(lambda: b"Prepare" in story.orders())
    story.target(7)
    story.until(lambda: new.ready == {"n1": 7})
    found, lines, said = new.take_over(["n1/0"], 7, "")
    assert (found.group, found.places) == ((story.member,), {story.member: ("n1/0",)})
    assert [json.loads(word)["kind"] for word in said[story.member]] == ["Hello", "Ready"]
    line.sendall(encode(Prepare(2)))  # It is only slow, and goes on.
    lines[story.member].sendall(encode(Prepare(7 << 20)))
    story.until(lambda: str(7 << 20).encode() in story.orders())
    for _ in range(20):
        story.until(lambda: True)
    assert story.orders() == b""
    for each in (line, *lines.values()):
        each.close()


@settings(deadline=None, max_examples=20)
@given(terms=st.permutations([1, 2, 3]))
def test_only_the_newest_term_is_followed(
    tmp_path_factory: pytest.TempPathFactory, terms: list[int]
) -> None:
    """Targets may be read in any order: an agent that was slow says an older one."""
    story = Story(tmp_path_factory.mktemp("part"))
    for term in terms:
        story.lead(term)
    for term in terms:
        story.target(term)
        newest = story.leaders[max(terms[: terms.index(term) + 1])]
        story.until(lambda newest=newest: "n1" in newest.ready)  # type: ignore[misc]
    assert [name for name, each in story.leaders.items() if not _is_idle(each)] == [3]
    story.close()


def _is_idle(leader: TeamLeader) -> bool:
    return all(talk.closed for _, talk in leader._talks.values())
