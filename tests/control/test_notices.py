"""Users are told of their jobs by mail, a webhook or a program: once each, and not too often."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.control.asking import in_memory, telling_in_memory
from tests.control.living import ME, bash, ended
from tests.waiting import awaited
from treadle.control.api import LiveService
from treadle.control.api import notifier as notifier_module
from treadle.wire.lab import ConfigChange
from treadle.wire.machine import EventView, Role, Who

# Apprise loads modules of Python that are to go.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ANN = Who(user="ann", role=Role.USER, uid=os.geteuid() + 1)
BOB = Who(user="bob", role=Role.USER, uid=os.geteuid() + 2)


def told(path: Path) -> list[dict[str, str]]:
    """What the program was given."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


async def until(there: Callable[[], object]) -> None:
    async def look() -> object:
        return there()

    await awaited(look)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Keeps what it is given, a line each."""
    path = tmp_path / "tell"
    path.write_text(f"#!/bin/sh\ncat >> {tmp_path / 'told'}; echo >> {tmp_path / 'told'}\n")
    path.chmod(0o755)
    return path


@asynccontextmanager
async def mail_server() -> AsyncIterator[tuple[int, list[str]]]:
    """A port, and the letters that arrive there."""
    letters: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).decode():
            word = line.split()[0].upper() if line.split() else ""
            if word == "DATA":
                writer.write(b"354 go on\r\n")
                letters.append((await reader.readuntil(b"\r\n.\r\n")).decode())
            writer.write(b"221 bye\r\n" if word == "QUIT" else b"250 good\r\n")
            if word == "QUIT":
                break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], letters
    finally:
        server.close()


def test_each_end_is_told_once_over_restarts(tmp_path: Path, program: Path) -> None:
    """Jobs end well, badly, and by being cancelled; one of them while no controller is there."""
    lab = f"""
notify: {{to: [{program}]}}
users:
  ann: {{notify: {{on: [start, end, fail]}}}}
"""

    async def first(live: LiveService) -> None:
        await live.configure(ME, ConfigChange(text=lab))
        good = (await live.submit(ANN, bash("true", name="good"))).id
        bad = (await live.submit(ANN, bash("exit 3", name="bad"))).id
        silent = (await live.submit(ANN, bash("exit 3", name="silent", notify="none"))).id
        bobs = (await live.submit(BOB, bash("true", name="bobs"))).id
        wanted = (await live.submit(BOB, bash("true", name="wanted", notify="end"))).id
        await ended(live, good, bad, silent, bobs, wanted)
        await until(lambda: len(told(tmp_path / "told")) >= 5)

    async def second(live: LiveService) -> None:
        held = (await live.submit(ANN, bash("true", name="held", held=True))).id
        await live.cancel(ANN, held)
        await ended(live, held)
        await until(lambda: len(told(tmp_path / "told")) >= 6)

    for story in (first, second):
        in_memory(story, tmp_path)
    found = sorted((each["user"], each["name"], each["what"]) for each in told(tmp_path / "told"))
    assert found == [
        ("ann", "bad", "fail"),
        ("ann", "bad", "start"),
        ("ann", "good", "end"),
        ("ann", "good", "start"),
        ("ann", "held", "end"),
        ("bob", "wanted", "end"),
    ]


@telling_in_memory()
async def test_mail_goes_to_the_users_own_address(live: LiveService) -> None:
    async with mail_server() as (port, letters):
        url = f"mailto://127.0.0.1:{port}?from=treadle@lab.org&to={{user}}@lab.org&mode=insecure"
        await live.configure(ME, ConfigChange(text=f'notify: {{to: ["{url}"]}}'))
        await live.submit(ANN, bash("exit 3", name="broken"))
        await until(lambda: bool(letters))
    assert "ann@lab.org" in letters[0]
    assert "broken" in letters[0]


@telling_in_memory()
async def test_what_is_too_much_is_counted(
    live: LiveService, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "EACH_MAX", 2)
    await live.configure(ME, ConfigChange(text=f"notify: {{to: [{program}], on: [end]}}"))
    array = await live.submit(ANN, bash("true", array="0-4"))
    await ended(live, *array.jobs)
    other = (await live.submit(BOB, bash("true"))).id
    await ended(live, other)
    await until(lambda: "bob" in [each["user"] for each in told(tmp_path / "told")])
    assert [each["user"] for each in told(tmp_path / "told")] == ["ann", "ann", "bob"]
    hour = live._life._notifier._hours["ann"]
    assert hour.kept == {"end": 3}
    monkeypatch.setattr(notifier_module, "EACH_MAX", 3)
    last = (await live.submit(ANN, bash("true"))).id
    await ended(live, last)
    await until(lambda: len(told(tmp_path / "told")) == 4)
    assert "3 notices before this one were left out" in told(tmp_path / "told")[-1]["text"]


@telling_in_memory()
async def test_an_address_that_does_not_answer_is_named_and_holds_up_nobody(
    live: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "PAUSE_S", 0.01)
    await live.configure(ME, ConfigChange(text="notify: {to: [/bin/false, json://127.0.0.1:9/]}"))
    job = (await live.submit(ANN, bash("exit 3"))).id
    await ended(live, job)
    said: list[str] = []

    async def both() -> bool:
        said[:] = [each.text for each in (await live.events_last()).events if each.kind == "Noted"]
        return sum("could not be told" in text for text in said) == 2

    await awaited(both)
    assert not any("127.0.0.1" in text for text in said), "addresses may have passwords in them"


@telling_in_memory()
async def test_what_a_program_is_given_is_no_event_and_a_job_that_is_gone_ends_nothing(
    live: LiveService, monkeypatch: pytest.MonkeyPatch, program: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(notifier_module, "PAUSE_S", 0.01)
    notifier = live._life._notifier
    lab = f'notify: {{to: ["/bin/false --token s3cret", {program}], on: [end]}}'
    await live.configure(ME, ConfigChange(text=lab))
    gone = EventView(id=1, at=0.0, kind="AttemptEnded", job="999")
    assert not await notifier._heard(gone)
    job = (await live.submit(ANN, bash("true"))).id
    await ended(live, job)
    await until(lambda: bool(told(tmp_path / "told")))

    async def said() -> list[str]:
        events = (await live.events_last()).events
        return [each.text for each in events if "could not be told" in each.text]

    assert "s3cret" not in "".join(await awaited(said))


@telling_in_memory()
async def test_who_makes_way_is_told(live: LiveService, program: Path, tmp_path: Path) -> None:
    await live.configure(ME, ConfigChange(text=f"notify: {{to: [{program}], on: [preempt]}}"))
    low = await live.submit(ANN, bash("sleep 60", devices="4", resumable=True, priority=-10))
    await until(lambda: live.status().free == 0)
    high = await live.submit(ME, bash("sleep 60", devices="4", priority=100))
    await until(lambda: bool(told(tmp_path / "told")))
    (found,) = told(tmp_path / "told")
    assert (found["job"], found["what"]) == (low.id, "preempt")
    await live.cancel(ME, high.id)
