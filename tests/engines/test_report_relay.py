"""Reports of jobs through the agent of their node: taken over a socket, and handed on."""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.engines.fleet_story import FleetStory, spread, telling

from treadle.core.actions import Change, Start
from treadle.core.job_report import JobReport, Report
from treadle.engines.agent import report_relay
from treadle.engines.agent.messages import FactsGiven
from treadle.engines.agent.report_relay import ReportRelay

TOKENS = {"1": "t-1", "2": "t-2"}
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
REPORTER = """
import os, sys, time
from treadle.report import report
for step in range(1, 1000):
    report(step, 1000)
    while not os.path.exists(f"{sys.argv[1]}-{step}"):
        time.sleep(0.01)
"""


def token_of(job: str) -> str | None:
    return None if job == "later" else TOKENS.get(job, "")


def asked(
    job: str = "1", token: str = "t-1", body: bytes = b'{"step": 3}', method: str = "POST"
) -> bytes:
    head = f"{method} /api/v1/jobs/{job}/report HTTP/1.1\r\nHost: treadle\r\n"
    head += f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def said(relay: ReportRelay, data: bytes, *, ends: bool = False) -> bytes:
    """The first line of the answer."""
    name = relay.address.removeprefix("unix:@")
    reader, writer = await asyncio.open_unix_connection(f"\0{name}")
    writer.write(data)
    if ends:
        writer.write_eof()
    line = b""
    with suppress(ConnectionError):
        line = await reader.readline()
    writer.close()
    return line


def with_relay(root: Path, story: Any, **details: Any) -> None:
    async def whole() -> None:
        relay = ReportRelay(root, token_of, **details)
        await relay.open()
        try:
            await asyncio.wait_for(story(relay), 30)
        finally:
            relay.close()

    asyncio.run(whole())


def steps(relay: ReportRelay, after: int = 0) -> dict[str, float]:
    return {each.job: each.report.step for each in relay.given(after)[0]}


def test_the_newest_report_of_each_job_is_kept_until_it_was_taken(tmp_path):
    async def story(relay: ReportRelay) -> None:
        for step in (1, 2):
            body = b'{"step": %d, "total": 9}' % step
            assert await said(relay, asked(body=body)) == b"HTTP/1.1 204 No Content\r\n"
        assert await said(relay, asked("2", "t-2")) == b"HTTP/1.1 204 No Content\r\n"
        given, upto = relay.given(0)
        assert [(each.job, each.token, each.report.step) for each in given] == [
            ("1", "t-1", 2.0),
            ("2", "t-2", 3.0),
        ]
        assert steps(relay) == {"1": 2, "2": 3}  # The answer may have been lost.
        await said(relay, asked(body=b'{"step": 4}'))
        assert steps(relay, upto) == {"1": 4}
        assert steps(relay, upto + 1) == {}

    with_relay(tmp_path, story)


def test_what_a_report_does_not_repeat_is_not_lost_with_the_one_before(tmp_path):
    async def story(relay: ReportRelay) -> None:
        await said(relay, asked(body=b'{"step": 1, "checkpoint": 1, "stages": {"load": 0.1}}'))
        await said(relay, asked(body=b'{"step": 2, "loss": 0.5}'))
        ((given,), _) = relay.given(0)
        assert given.report == Report(step=2, loss=0.5, checkpoint=1, stages={"load": 0.1})

    with_relay(tmp_path, story)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (asked(token="t-2"), 401),
        (asked(token=""), 401),
        (asked("3"), 404),  # It is not on this node.
        (asked("later"), 503),  # No controller is in charge.
        (asked("1/../2"), 404),
        (asked().replace(b"/report", b"/cancel"), 404),
        (asked(method="GET"), 405),
        (asked(body=b'{"step": "3"}'), 400),
        (asked(body=b'{"step": true}'), 400),
        (asked(body=b"\xff"), 400),
        (asked(body=b"[" * 5000), 413),
        (b"no HTTP\r\n\r\n", 400),
        (b"X" * 9000, 400),
        (asked().replace(b"Host", b"Expect: 100-continue\r\nHost"), 417),
    ],
)
def test_what_is_wrong_is_refused(tmp_path, data: bytes, answer: int):
    async def story(relay: ReportRelay) -> None:
        assert (await said(relay, data)).split()[1] == b"%d" % answer
        assert relay.given(0) == ((), 0)

    with_relay(tmp_path, story)


def test_half_a_request_is_not_waited_for(tmp_path):
    async def story(relay: ReportRelay) -> None:
        assert await said(relay, asked()[:-1]) == b""
        assert await said(relay, asked()[:-1], ends=True) == b"HTTP/1.1 400 Bad Request\r\n"
        assert relay.given(0) == ((), 0)

    with_relay(tmp_path, story, within_s=0.2)


def test_one_user_cannot_ask_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(report_relay, "PER_S_MAX", 2)

    async def story(relay: ReportRelay) -> None:
        answers = [await said(relay, asked()) for _ in range(10)]
        assert b"HTTP/1.1 429 Too Many Requests\r\n" in answers

    with_relay(tmp_path, story)


def test_one_user_cannot_keep_all_connections(tmp_path, monkeypatch):
    monkeypatch.setattr(report_relay, "OPEN_PER_USER_MAX", 2)

    async def story(relay: ReportRelay) -> None:
        name = relay.address.removeprefix("unix:@")
        held = [await asyncio.open_unix_connection(f"\0{name}") for _ in range(2)]
        assert await said(relay, asked()) == b"HTTP/1.1 429 Too Many Requests\r\n"
        for _, writer in held:
            writer.close()

    with_relay(tmp_path, story)


def test_the_name_is_the_same_for_the_agent_that_follows_and_is_never_waited_for(tmp_path):
    async def story(relay: ReportRelay) -> None:
        other = ReportRelay(tmp_path, token_of)
        await other.open()
        assert other.address == ""  # The agent before has not gone yet.
        before = relay.address
        relay.close()
        assert relay.address == ""
        await other.open()
        assert other.address == before
        assert await said(other, asked()) == b"HTTP/1.1 204 No Content\r\n"
        other.close()

    with_relay(tmp_path, story)


# -- in a fleet -----------------------------------------------------------------------------------


def reporter(bench: FleetStory, code: str = REPORTER) -> None:
    env = {"TREADLE_API_URL": "unix:/of/another/machine", "TREADLE_JOB_ID": "a"}
    secrets = {"TREADLE_JOB_TOKEN": "t-a"}
    bench.job("a", "python", "-c", code, f"{bench.root}/after", env=env, secrets=secrets)


async def heard(bench: FleetStory, step: int) -> JobReport:
    found: list[JobReport] = await bench.until(
        lambda: [each for each in bench.jobs.reports if each.report.step == step]
    )
    return found[0]


@telling()
async def test_a_job_reports_to_its_node_also_when_its_agent_was_replaced(
    bench: FleetStory,
) -> None:
    reporter(bench)
    await bench.order(Start(0, "a", spread("n1")))
    found = await heard(bench, 1)
    assert (found.job, found.token, found.report) == ("a", "t-a", Report(step=1, total=1000))
    assert 0 <= found.at <= bench.engine._clock.now()
    await bench.world.replace_agent("n1")
    await bench.until(lambda: bench.world.links["n1"].agent.session)
    (bench.root / "after-1").touch()
    await heard(bench, 2)


@telling()
async def test_an_answer_that_is_lost_costs_no_report(bench: FleetStory) -> None:
    reporter(bench)
    await bench.order(Start(0, "a", spread("n1")))
    await heard(bench, 1)
    bench.world.links["n1"].lose_answers_of.add("facts")
    (bench.root / "after-1").touch()
    await heard(bench, 2)
    assert [each.report.step for each in bench.jobs.reports] == [1, 2]


@telling()
async def test_a_report_for_a_job_of_another_node_is_not_handed_on(bench: FleetStory) -> None:
    reporter(bench)
    await bench.order(Start(0, "a", spread("n1")))
    await heard(bench, 1)
    report = JobReport(job="a", token="t-a", report=Report(step=99), at=0.0)
    (view,) = [view for view in bench.engine.view() if view.name == "n2"]
    given = FactsGiven(facts=(), upto=0, view=view, measurements=(), now=0.0, reports=(report,))
    bench.engine.see("n2", given)
    assert [each.report.step for each in bench.jobs.reports] == [1]
    bench.engine.see("n1", given)
    assert [each.report.step for each in bench.jobs.reports] == [1, 99]


@telling()
async def test_what_an_attempt_reports_in_its_grace_is_not_taken_for_the_next_ones(
    bench: FleetStory,
) -> None:
    """The next one goes on from the checkpoint before, perhaps."""
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    reporter(bench, stubborn + REPORTER)
    await bench.order(Start(0, "a", spread("n1")))
    await heard(bench, 1)
    await bench.order(Change(1, "a", spread("n2")))
    relay = bench.world.links["n1"].agent._relay
    assert relay is not None
    (bench.root / "after-1").touch()
    await bench.until(lambda: relay._upto == 2 and not relay._kept)
    assert [each.report.step for each in bench.jobs.reports] == [1]
    (bench.root / "after-1").unlink()
    await bench.until(lambda: len(bench.jobs.reports) == 2)
    assert bench.jobs.reports[1].report.step == 1


@AS_ROOT
@telling()
async def test_the_process_of_another_user_reaches_an_agent_that_runs_as_root(
    bench: FleetStory,
) -> None:
    reporter(bench, REPORTER.replace("for step", "os.setuid(65534)\nfor step"))
    await bench.order(Start(0, "a", spread("n1")))
    assert (await heard(bench, 1)).token == "t-a"


@AS_ROOT
def test_a_name_that_another_user_has_taken_is_not_believed(tmp_path):
    name = f"treadle-reports-{os.urandom(8).hex()}"
    code = f"""
import os, socket
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as taken:
    taken.bind("\\0{name}")
    taken.listen()
    print("listening", flush=True)
    link, _ = taken.accept()
    print(len(link.recv(100)), flush=True)
"""

    async def story() -> None:
        taken = await asyncio.create_subprocess_exec(
            os.path.realpath(sys.executable), "-c", code, stdout=asyncio.subprocess.PIPE, cwd="/"
        )
        assert taken.stdout is not None
        assert await taken.stdout.readline() == b"listening\n"
        env = {"TREADLE_API_URL": f"unix:@{name}", "TREADLE_JOB_TOKEN": "t", "TREADLE_JOB_ID": "1"}
        calls = "from treadle.report import report; report(1); report(2)"
        told = await asyncio.create_subprocess_exec(
            sys.executable, "-c", calls, env={**os.environ, **env}
        )
        assert await told.wait() == 0
        assert await taken.stdout.readline() == b"0\n"  # The token was not shown.
        await taken.wait()

    async def limited() -> None:
        await asyncio.wait_for(story(), 30)

    asyncio.run(limited())
