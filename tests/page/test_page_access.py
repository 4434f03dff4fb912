"""Who gets in, who may do what, and what is left when they leave."""

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.control.daemons import Daemon
from tests.page.visiting import Visitor, bash, visiting
from treadle.wire.jobs import State
from treadle.wire.machine import Role

pytestmark = [pytest.mark.browser, pytest.mark.engine]


def test_nobody_sees_anything_without_a_token(browser: Browser, here: Daemon):
    job = here.client.submit(bash(name="private", held=True)).id
    with visiting(browser, here) as visitor:
        for where in ("", "#/jobs", f"#/jobs/{job}", "#/usage"):
            visitor.page.goto(f"{visitor.url}/{where}")
            expect(visitor.page.get_by_label("Token")).to_be_visible()
            expect(visitor.page.locator("body")).not_to_contain_text("private")
        visitor.keep("login")
        visitor.type_token("not a token")
        expect(visitor.page.get_by_role("alert")).to_contain_text("treadle token make NAME")
        expect(visitor.nav).to_have_count(0)
        visitor.expected.add("401 (Unauthorized)")
        visitor.check()


def test_a_token_lets_in_and_logging_out_leaves_nothing(browser: Browser, here: Daemon):
    here.client.submit(bash(name="seen", held=True))
    with visiting(browser, here) as visitor:
        visitor.log_in_as("root", Role.ADMIN).go("/jobs")
        expect(visitor.row("seen")).to_be_visible()
        [cookie] = visitor.page.context.cookies()
        csrf = visitor.page.evaluate("localStorage.getItem('treadle-csrf')")
        assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
        assert visitor.page.evaluate("document.cookie") == ""
        visitor.page.get_by_role("button", name="Log out").click()
        expect(visitor.page.get_by_label("Token")).to_be_visible()
        expect(visitor.page.locator("body")).not_to_contain_text("seen")
        # What the browser kept is worth nothing any more.
        visitor.page.context.add_cookies([cookie])  # type: ignore[list-item]
        visitor.page.evaluate("csrf => localStorage.setItem('treadle-csrf', csrf)", csrf)
        visitor.page.reload()
        expect(visitor.page.get_by_label("Token")).to_be_visible()
        visitor.check()


def test_a_link_lets_in_once_and_does_not_stay_in_the_address(browser: Browser, here: Daemon):
    link = here.client.session_link().url
    with visiting(browser, here) as first:
        first.page.goto(link)
        expect(first.nav).to_be_visible()
        expect(first.page).to_have_url(re.compile("#/cluster$"))
        first.check()
    with visiting(browser, here) as second:
        second.page.goto(link)
        expect(second.page.get_by_role("alert")).not_to_be_empty()
        expect(second.nav).to_have_count(0)
        second.expected.add("401 (Unauthorized)")
        second.check()


def test_a_viewer_looks_and_cannot_cancel(browser: Browser, here: Daemon):
    """Neither by a button, nor by a key, nor by a request that the page would not make."""
    job = here.client.submit(bash(name="not-yours")).id
    here.reached(State.RUNNING, job)
    with visiting(browser, here) as visitor:
        visitor.log_in_as("nobody", Role.VIEWER).go("/jobs")
        row = visitor.row("not-yours")
        expect(row).to_contain_text("running")
        row.get_by_role("checkbox").check()
        expect(visitor.page.get_by_role("button", name="Cancel", exact=True)).to_be_disabled()
        visitor.page.locator(".window-list").press("Delete")
        expect(visitor.page.get_by_role("dialog")).not_to_be_visible()
        answer = visitor.page.evaluate(
            """async (job) => {
              const csrf = localStorage.getItem("treadle-csrf");
              const headers = { "Content-Type": "application/json", "X-CSRF-Token": csrf };
              const body = JSON.stringify({ verb: "cancel", ids: [job] });
              const made = await fetch("/api/v1/jobs/orders", { method: "POST", headers, body });
              return [made.status, await made.text()];
            }""",
            job,
        )
        assert answer[0] == 403, answer
        visitor.go(f"/jobs/{job}")
        expect(visitor.page.get_by_role("button", name="Cancel", exact=True)).to_be_disabled()
        visitor.go("/what-if")
        expect(visitor.page.get_by_role("button", name="Simulate")).to_be_disabled()
        visitor.expected.add("403 (Forbidden)")
        visitor.check()
    assert here.view(job).state is State.RUNNING


def test_a_daemon_that_goes_away_and_comes_back_is_noticed(here: Daemon, visitor: Visitor):
    """The port is the same again, and the token's session is gone with the old daemon's memory."""
    job = here.client.submit(bash(name="survives", held=True)).id
    visitor.expected |= {"net::ERR_", "401 (Unauthorized)"}
    visitor.go("/jobs")
    expect(visitor.row("survives")).to_be_visible()
    here.leave()
    expect(visitor.page.get_by_role("alert")).to_contain_text("What you see is from before")
    expect(visitor.row("survives")).to_be_visible()
    here.start()
    expect(visitor.page.get_by_label("Token")).to_be_visible()
    visitor.log_in("/jobs")
    expect(visitor.row("survives")).to_be_visible()
    assert here.view(job).state is State.HELD
