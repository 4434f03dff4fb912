"""The life of real jobs, as somebody sees it who looks at the page and touches it."""

import re
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.control.daemons import Daemon
from tests.page.visiting import LONG, Visitor, bash
from treadle.wire.jobs import State

pytestmark = [pytest.mark.browser, pytest.mark.engine]
UP = ("--devices", "4", "--policy", "afs")
ELASTIC = {"devices": "1..4", "resumable": True}


def until_file(path: Path) -> str:
    return f"trap 'exit 143' TERM; until test -e {path}; do sleep 0.05 & wait $!; done"


def test_a_job_appears_is_resized_and_finishes(here: Daemon, visitor: Visitor, tmp_path: Path):
    """1. The table is empty. 2. A job is submitted, and has all devices. 3. Another one takes two.
    4. The first says for whom it shrank, and finishes."""
    visitor.go("/jobs")
    expect(visitor.page.get_by_text("There is no such job")).to_be_visible()
    job = here.client.submit(bash(until_file(tmp_path / "go"), name="grows", **ELASTIC)).id
    row = visitor.row("grows")
    expect(row).to_contain_text("running")
    expect(row.locator(".devices")).to_have_text("4/1–4")
    other = here.client.submit(bash(name="in-the-way", devices="2", priority=5)).id
    expect(row.locator(".devices")).to_have_text("2/1–4")
    expect(visitor.row("in-the-way")).to_contain_text("running")
    visitor.keep("jobs")
    expect(row.locator(".reason")).to_contain_text("in-the-way")
    row.get_by_role("link").click()
    (tmp_path / "go").touch()
    expect(visitor.page.locator(".job-title")).to_contain_text("succeeded")
    timeline = visitor.page.get_by_label("Timeline")
    expect(timeline).to_contain_text(f"give job {job} 2 devices instead")
    # A policy speaks of what it orders, not of what a job does.
    expect(timeline.get_by_title("Change").first).to_contain_text(f"for job {other}")
    expect(timeline.get_by_title("AttemptEnded").last).not_to_contain_text(f"for job {other}")
    expect(visitor.fact("Resizes")).to_have_text(re.compile(r"Resizes\s*1"))
    assert here.view(job).state is State.SUCCEEDED


def test_a_reason_stands_beside_its_own_order_alone(here: Daemon, visitor: Visitor):
    """The policy decided to start the job. That it stops a moment later was its user's wish."""
    job = here.client.submit(bash(name="brief")).id
    here.reached(State.RUNNING, job)
    here.client.cancel(job)
    here.reached(State.CANCELLED, job)
    visitor.go(f"/jobs/{job}")
    timeline = visitor.page.get_by_label("Timeline")
    expect(timeline.get_by_title("Start", exact=True)).to_contain_text(f"submitted job {job}")
    expect(timeline.get_by_title("Stop", exact=True)).not_to_contain_text("submitted")


def test_the_cluster_shows_who_holds_what(here: Daemon, visitor: Visitor):
    expect(visitor.page.locator(".tile.free")).to_have_count(4)
    here.client.submit(bash(name="wide", devices="3"))
    expect(visitor.page.locator(".tile.held")).to_have_count(3)
    held = visitor.page.locator(".tile.held").first
    held.hover()
    card = visitor.page.get_by_label("Device", exact=True)
    expect(card).to_contain_text("wide")
    expect(card).to_contain_text("3 of 3")
    visitor.keep("cluster")
    held.click()
    expect(visitor.page.get_by_role("heading", name="wide")).to_be_visible()


def test_a_log_is_followed_and_searched(here: Daemon, visitor: Visitor, tmp_path: Path):
    body = f"echo first words; {until_file(tmp_path / 'go')}; echo last words; {LONG}"
    job = here.client.submit(bash(body, name="talks")).id
    visitor.go(f"/jobs/{job}")
    output = visitor.page.get_by_label("Output", exact=True)
    expect(output).to_contain_text("first words")
    expect(output).not_to_contain_text("last words")
    (tmp_path / "go").touch()
    expect(output).to_contain_text("last words")
    output.get_by_label("Search the output").fill("words")
    expect(output).to_contain_text("1 of 2")
    expect(output.locator(".log-line.marked")).to_contain_text("first words")
    output.get_by_label("Next hit").click()
    expect(output.locator(".log-line.marked")).to_contain_text("last words")
    visitor.keep("job")


def test_a_job_is_cancelled_after_a_question(here: Daemon, visitor: Visitor):
    job = here.client.submit(bash(name="unwanted")).id
    here.reached(State.RUNNING, job)
    visitor.go(f"/jobs/{job}")
    page = visitor.page
    cancel = page.get_by_role("button", name="Cancel", exact=True)
    cancel.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Cancel 1 job?")
    expect(dialog).to_contain_text("unwanted")
    dialog.get_by_role("button", name="No, leave it").click()
    expect(dialog).not_to_be_visible()
    assert here.view(job).state is State.RUNNING
    cancel.click()
    dialog.get_by_role("button", name="Cancel it").click()
    expect(page.locator(".job-title")).to_contain_text("cancelled")
    expect(page.get_by_text(f"Job {job} cancelled: it is")).to_be_visible()
    expect(cancel).to_be_disabled()


def test_many_jobs_are_cancelled_at_once(here: Daemon, visitor: Visitor):
    jobs = [here.client.submit(bash(name=f"many-{number}", held=True)).id for number in range(3)]
    kept = here.client.submit(bash(name="stays", held=True)).id
    visitor.go("/jobs")
    visitor.page.get_by_label("Filter jobs").fill("many-")
    expect(visitor.page.get_by_text("3 jobs")).to_be_visible()
    visitor.page.get_by_label("Select all that are shown").check()
    visitor.page.get_by_role("button", name="Cancel", exact=True).click()
    visitor.page.get_by_role("button", name="Cancel all 3").click()
    expect(visitor.page.get_by_text("No job matches the filter")).to_be_visible()
    assert {view.state for view in here.ended(*jobs)} == {State.CANCELLED}
    assert here.view(kept).state is State.HELD


def test_why_a_job_waits_is_read_in_the_table_on_its_page_and_in_the_queue(
    here: Daemon, visitor: Visitor
):
    here.reached(State.RUNNING, here.client.submit(bash(name="first", devices="3")).id)
    job = here.client.submit(bash(name="patient", devices="4")).id
    because = here.client.why(job).sentence
    visitor.go("/jobs")
    expect(visitor.row("patient").locator(".reason")).to_have_text(because)
    visitor.go("/queue")
    waiting = visitor.page.get_by_role("row").filter(has_text="patient")
    expect(waiting).to_contain_text("4 devices")
    expect(waiting).to_contain_text(because)
    visitor.keep("queue")
    waiting.get_by_role("link").click()
    why = visitor.page.get_by_label("Why", exact=True)
    expect(why).to_contain_text("Why it waits")
    expect(why).to_contain_text(because[1:])
    expect(why).to_contain_text("1 of 1 waiting job")


def test_an_earlier_moment_is_replayed(here: Daemon, visitor: Visitor):
    """A job held two devices for some seconds, and has ended: they are free now, and were not."""
    job = here.client.submit(bash("sleep 2.2", name="was-here", devices="2")).id
    [ended] = here.ended(job)
    assert ended.started_at is not None
    at = int(ended.started_at) + 1  # The clock of the page counts whole seconds.
    page = visitor.page
    visitor.go("/jobs").go("/cluster")
    expect(page.locator(".tile.free")).to_have_count(4)
    zone = page.evaluate("at => new Date(at * 1000).getTimezoneOffset() * -60", at)
    moment = datetime.utcfromtimestamp(at + zone).isoformat()  # noqa: DTZ004
    page.get_by_label("Go to").fill(moment)
    page.get_by_label("Go to").press("Enter")
    expect(page.locator(".tile.held")).to_have_count(2)
    expect(page.get_by_label("Jobs with devices")).to_contain_text("was-here")
    visitor.keep("cluster-past")
    page.get_by_role("button", name="Back to live").click()
    expect(page.locator(".tile.free")).to_have_count(4)
    expect(page.get_by_role("heading", name="Now")).to_be_visible()


def test_decisions_are_listed_with_their_reasons(here: Daemon, visitor: Visitor):
    job = here.client.submit(bash(name="decided", devices="2")).id
    here.reached(State.RUNNING, job)
    visitor.go("/decisions")
    card = visitor.page.locator(".decision").filter(has_text="decided").first
    expect(card).to_contain_text("start")
    expect(card).to_contain_text("ms CPU")
    visitor.keep("decisions")


def test_another_policy_is_tried_on_the_queue(here: Daemon, visitor: Visitor):
    here.client.submit(bash(name="long-one", devices="4", estimate_s=600.0))
    for number in range(2):
        here.client.submit(bash(name=f"short-{number}", devices="2", estimate_s=60.0 + number))
    visitor.go("/what-if")
    page = visitor.page
    page.get_by_label("Policy").fill("srtf")
    page.get_by_label("Machines").fill("2x4")
    page.get_by_role("button", name="Simulate").click()
    outcome = page.get_by_role("region", name=re.compile("queue of"))
    expect(outcome).to_contain_text("Mean completion")
    expect(outcome).to_contain_text("srtf")
    expect(page.get_by_role("row").filter(has_text="short-1")).to_be_visible()
    expect(page.locator("canvas")).to_have_count(2)
    visitor.keep("what-if")


def test_usage_is_shown_and_downloaded(here: Daemon, visitor: Visitor):
    here.ended(here.client.submit(bash("sleep 0.2", name="used", tenant="lab")).id)
    visitor.go("/usage")
    page = visitor.page
    expect(page.get_by_role("row").filter(has_text="lab")).to_be_visible()
    fragmented = page.get_by_text("Fragmented", exact=True).locator("+ dd")
    expect(fragmented).to_have_text("0 h")
    visitor.keep("usage")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    text = download.value.path().read_text()
    assert text.startswith("day,user,tenant,jobs,")
    assert ",lab," in text
