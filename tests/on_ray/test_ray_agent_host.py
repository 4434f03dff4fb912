"""The host of an agent, without Ray: an agent that dies goes on though there is no controller."""

import asyncio
import os
import threading
from pathlib import Path

import msgspec
import pytest

from treadle.engines.agent.agent import Agent
from treadle.engines.agent.agent_host import AgentHost, Post
from treadle.engines.context import EngineOptions

WITHIN_S = 20.0


def post(root: Path, rack: str = "") -> Post:
    options = EngineOptions(devices=1)
    return Post(name="b", address="127.0.0.1", root=str(root), rack=rack, options=options)


def test_an_agent_is_tried_again_until_the_cluster_answers(tmp_path: Path) -> None:
    """Its jobs would be killed when their grant has run out."""
    problems = [OSError("the GCS does not answer"), OSError("not yet")]
    confirmed = iter([False, False, True])

    def kept() -> Post:
        if problems:
            raise problems.pop()
        return post(tmp_path)

    host = AgentHost(lambda _: next(confirmed, True), again_after_s=0.001)
    host.run(host.resume(kept)).result(WITHIN_S)
    assert host.run(host.attend(post(tmp_path))).result(WITHIN_S).node is not None
    assert list((tmp_path / "nodes" / "b" / "leases").glob("*.lease"))
    host.run(host.close()).result(WITHIN_S)


def test_an_agent_that_a_controller_wants_is_not_replaced_by_the_one_before(tmp_path: Path) -> None:
    asked, go = threading.Event(), threading.Event()

    def kept() -> Post:
        asked.set()
        assert go.wait(WITHIN_S)
        return post(tmp_path)

    host = AgentHost(lambda _: True, again_after_s=0.001)
    resuming = host.run(host.resume(kept))
    assert asked.wait(WITHIN_S)
    attending = host.run(host.attend(post(tmp_path, rack="r1")))
    go.set()
    wanted = attending.result(WITHIN_S)
    resuming.result(WITHIN_S)
    assert host.run(host.attend(post(tmp_path, rack="r1"))).result(WITHIN_S).agent == wanted.agent
    host.run(host.close()).result(WITHIN_S)


def test_nothing_is_resumed_where_no_controller_has_been(tmp_path: Path) -> None:
    host = AgentHost(lambda _: True)
    host.run(host.resume(lambda: None)).result(WITHIN_S)
    assert not (tmp_path / "nodes").exists()
    host.run(host.close()).result(WITHIN_S)


def test_an_agent_that_is_started_again_is_not_taken_from_a_treadle_whose_jobs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Treadle has left, and its jobs run. 2. An agent dies, and Ray starts it again. 3. Another
    Treadle wants the agent, in the very moment in which it begins.
    """
    monkeypatch.setattr(Agent, "runs", lambda agent: agent.root.is_relative_to(tmp_path / "a"))
    asked, go = threading.Event(), threading.Event()

    def kept() -> Post:
        asked.set()
        assert go.wait(WITHIN_S)
        return post(tmp_path / "a")

    host = AgentHost(lambda _: True, again_after_s=0.001)
    host.run(host.resume(kept))
    assert asked.wait(WITHIN_S)
    others = host.run(host.others(post(tmp_path / "b")))
    attending = host.run(host.attend(post(tmp_path / "b")))
    go.set()
    assert others.result(WITHIN_S) == str(tmp_path / "a")
    assert attending.result(WITHIN_S).others == str(tmp_path / "a")
    host.run(host.close()).result(WITHIN_S)


def test_calls_that_wait_for_ever_do_not_keep_a_grant_from_being_renewed(tmp_path: Path) -> None:
    """As where a file system does not answer: they use up the threads of the agent's event loop."""
    asked, go = threading.Semaphore(0), threading.Event()

    def is_member(_: Post) -> bool:
        asked.release()
        return True

    host = AgentHost(is_member)
    often = msgspec.structs.replace(post(tmp_path), options=EngineOptions(failover_s=0.05))
    assert host.run(host.attend(often)).result(WITHIN_S).node is not None
    for _ in range(64):
        host.run(asyncio.to_thread(go.wait))
    host.run(asyncio.sleep(0)).result(WITHIN_S)
    while asked.acquire(blocking=False):
        pass
    for _ in range(3):
        assert asked.acquire(timeout=WITHIN_S / 4)
    go.set()
    host.run(host.close()).result(WITHIN_S)


@pytest.mark.skipif(os.geteuid() != 0, reason="agents that run as root open their folders")
@pytest.mark.parametrize("there", [True, False])
def test_users_can_pass_through_to_their_checkpoints_whatever_the_umask(
    tmp_path: Path, there: bool
) -> None:
    root = tmp_path / "state"
    if there:
        root.mkdir(mode=0o700)
    before = os.umask(0o077)
    try:
        host = AgentHost(lambda _: True)
        assert host.run(host.attend(post(root))).result(WITHIN_S).node is not None
        host.run(host.close()).result(WITHIN_S)
    finally:
        os.umask(before)
    folders = (root, root / "nodes", root / "nodes" / "b")
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o711] * 3
