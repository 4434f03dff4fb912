"""What the page offers and says is what can be done and what was."""

import shlex
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.control.daemons import Daemon
from tests.page.visiting import Visitor, bash, visiting
from treadle.wire.jobs import State

pytestmark = [pytest.mark.browser, pytest.mark.engine]
PHONE = {"width": 390, "height": 844}


def button(visitor: Visitor, name: str) -> Locator:
    return visitor.page.get_by_role("button", name=name, exact=True)


def test_hold_and_release_are_offered_where_they_can_be_done(here: Daemon, visitor: Visitor):
    """1. Runs and cannot resume: neither. 2. Waits: hold. 3. Held: release."""
    runs = here.client.submit(bash(name="runs", devices="4")).id
    here.reached(State.RUNNING, runs)
    waits = here.client.submit(bash(name="waits")).id
    visitor.go(f"/jobs/{runs}")
    expect(button(visitor, "Cancel")).to_be_enabled()
    expect(button(visitor, "Hold")).to_be_disabled()
    expect(button(visitor, "Release")).to_be_disabled()
    visitor.go(f"/jobs/{waits}")
    expect(button(visitor, "Release")).to_be_disabled()
    button(visitor, "Hold").click()
    button(visitor, "Hold it").click()
    expect(visitor.page.get_by_text(f"Job {waits} held: it is held now")).to_be_visible()
    expect(button(visitor, "Hold")).to_be_disabled()
    button(visitor, "Release").click()
    button(visitor, "Release it").click()
    expect(visitor.page.get_by_text(f"Job {waits} released: it is pending now")).to_be_visible()


def test_an_ended_job_says_what_it_had_and_its_command_as_it_is_typed(
    here: Daemon, visitor: Visitor
):
    command = ("echo", "it's", "two words", "plain", "")
    job = here.client.submit(replace(bash(name="short", devices="2"), command=command)).id
    here.ended(job)
    visitor.go(f"/jobs/{job}")
    expect(visitor.fact("Devices")).to_contain_text("had 2 of 2")
    expect(visitor.fact("Command")).to_contain_text(shlex.join(command))
    visitor.go("/jobs?show=ended")
    expect(visitor.row("short").locator(".devices")).to_have_text("2/2")


def test_sorting_starts_at_the_top_and_a_phone_can_sort(browser: Browser, here: Daemon):
    for number in range(30):
        here.client.submit(bash(name=f"row-{number}", held=True))
    with visiting(browser, here, viewport=PHONE) as visitor:
        visitor.log_in("/jobs")
        expect(visitor.row("row-29")).to_be_visible()
        rows = visitor.page.locator(".window-list")
        rows.evaluate("list => { list.scrollTop = 1e6; }")
        expect(visitor.row("row-0")).to_be_visible()
        visitor.page.get_by_label("Sort by").select_option("submitted")
        expect(rows).to_have_js_property("scrollTop", 0)
        visitor.page.get_by_label("Descending").click()
        expect(visitor.page.locator(".job-row .name").first).to_contain_text("row-0")
        visitor.check()


def test_a_phone_shows_every_page_in_its_width(browser: Browser, here: Daemon):
    job = here.client.submit(bash("echo " + "x" * 300, name="a-name-that-is-rather-long")).id
    here.ended(job)
    with visiting(browser, here, viewport=PHONE) as visitor:
        visitor.log_in()
        for where in ("cluster", "jobs", "queue", "decisions", "usage", f"jobs/{job}"):
            visitor.go(f"/{where}")
            expect(visitor.page.locator("h1").first).to_be_attached()
            if where.startswith("jobs/"):
                expect(visitor.page.get_by_role("region", name="Learned")).to_be_attached()
            width = "document.documentElement.scrollWidth"
            assert visitor.page.evaluate(width) <= PHONE["width"], where
            tab = visitor.nav.get_by_role("link", name="Usage").bounding_box()
            assert tab is not None
            assert tab["x"] + tab["width"] <= PHONE["width"], where


def test_a_long_output_is_read_from_its_beginning(here: Daemon, visitor: Visitor):
    """Only its end is read at first, and which number a line there has is not known."""
    job = here.client.submit(bash("seq -f 'line %06.0f of a long output' 20000", name="long")).id
    here.ended(job)
    visitor.go(f"/jobs/{job}")
    output = visitor.page.get_by_role("log")
    expect(output).to_contain_text("line 020000")
    expect(output.locator(".line-number")).to_have_count(0)
    button(visitor, "Read it from the beginning").click()
    expect(output).to_contain_text("line 000001")
    expect(output.locator(".line-number").first).to_have_text("1")


def test_the_reason_of_a_running_job_is_asked_again(here: Daemon, visitor: Visitor):
    job = here.client.submit(bash(name="runs")).id
    here.reached(State.RUNNING, job)
    page = visitor.page
    page.clock.install()
    visitor.go(f"/jobs/{job}")
    expect(page.get_by_label("Why", exact=True)).to_be_visible()
    with page.expect_request(f"**/jobs/{job}/why"):
        page.clock.run_for(11_000)
