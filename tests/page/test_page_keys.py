"""Everything with the keyboard alone, as somebody without a mouse goes through the page."""

import pytest
from playwright.sync_api import Locator, expect

from tests.control.daemons import Daemon
from tests.page.visiting import Visitor, bash
from treadle.wire.jobs import State

pytestmark = [pytest.mark.browser, pytest.mark.engine]
# By a ring around it, or around the table that it is in.
FOCUS_SHOWN = """each => [each, each.parentElement].some((one) => {
  const style = getComputedStyle(one);
  return style.outlineStyle !== 'none' || style.boxShadow !== 'none';
})"""
STOPS_MAX = 60  # of Tab before something must be reached


def tab_to(visitor: Visitor, wanted: Locator) -> None:
    """Press Tab until it has the focus, which must be visible."""
    expect(wanted).to_be_visible()
    for _ in range(STOPS_MAX):
        visitor.page.keyboard.press("Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            shown = wanted.evaluate(FOCUS_SHOWN)
            assert shown, "the focus cannot be seen"
            return
    raise AssertionError(f"{STOPS_MAX} presses of Tab did not reach {wanted}")


def press(visitor: Visitor, *keys: str) -> None:
    for key in keys:
        visitor.page.keyboard.press(key)


def test_pages_are_reached_by_tab_and_enter(visitor: Visitor):
    page = visitor.page
    press(visitor, "Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    for name, title in (("Jobs", "Jobs"), ("Queue", "Queue and shares"), ("Usage", "Usage")):
        page.locator("body").focus()
        tab_to(visitor, visitor.nav.get_by_role("link", name=name))
        press(visitor, "Enter")
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()


def test_a_job_is_found_selected_and_cancelled_with_keys(here: Daemon, visitor: Visitor):
    """1. Filter. 2. Move in the table, select. 3. Delete asks; Escape leaves it. 4. Delete and the
    answer yes."""
    for name in ("one", "two", "three"):
        here.client.submit(bash(name=f"key-{name}", held=True))
    visitor.go("/jobs")
    page = visitor.page
    expect(visitor.row("key-one")).to_be_visible()
    tab_to(visitor, page.get_by_label("Filter jobs"))
    page.keyboard.type("key-two")
    expect(page.get_by_text("1 job", exact=True)).to_be_visible()
    tab_to(visitor, page.locator(".window-list"))
    press(visitor, "Home", "Space")
    expect(page.get_by_text("1 job, 1 selected")).to_be_visible()
    press(visitor, "Delete")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("key-two")
    press(visitor, "Escape")
    expect(dialog).not_to_be_visible()
    expect(page.locator(".window-list")).to_be_focused()
    press(visitor, "Delete")
    expect(dialog).to_be_visible()
    yes = dialog.get_by_role("button", name="Cancel it")
    tab_to(visitor, yes)
    press(visitor, "Enter")
    expect(page.get_by_text("No job matches the filter")).to_be_visible()
    states = {view.name: view.state for view in here.client.job_page(ended=True).jobs}
    assert states["key-two"] is State.CANCELLED
    assert states["key-one"] is State.HELD


def test_a_jobs_page_is_opened_and_its_cancel_used_with_keys(here: Daemon, visitor: Visitor):
    job = here.client.submit(bash(name="by-enter")).id
    here.reached(State.RUNNING, job)
    visitor.go("/jobs")
    page = visitor.page
    expect(visitor.row("by-enter")).to_be_visible()
    tab_to(visitor, page.locator(".window-list"))
    press(visitor, "Home", "Enter")
    expect(page.get_by_role("heading", name="by-enter")).to_be_visible()
    tab_to(visitor, page.get_by_role("button", name="Cancel", exact=True))
    press(visitor, "Enter")
    tab_to(visitor, page.get_by_role("dialog").get_by_role("button", name="Cancel it"))
    press(visitor, "Enter")
    expect(page.locator(".job-title")).to_contain_text("cancelled")


def test_devices_and_the_past_are_looked_at_with_keys(here: Daemon, visitor: Visitor):
    here.client.submit(bash(name="on-two", devices="2"))
    page = visitor.page
    expect(page.locator(".tile.held")).to_have_count(2)
    tab_to(visitor, visitor.tile(0))
    card = page.get_by_label("Device", exact=True)
    expect(card).to_contain_text(":0")
    press(visitor, "ArrowRight")
    expect(card).to_contain_text(":1")
    press(visitor, "End")
    expect(card).to_contain_text(":3")
    page.locator("body").focus()
    slider = page.get_by_role("slider", name="Moment shown")
    tab_to(visitor, slider)
    expect(slider).to_have_attribute("aria-valuetext", "now")
    press(visitor, "ArrowLeft")
    expect(page.get_by_role("heading", name="At ")).to_be_visible()
    press(visitor, "End")
    expect(page.get_by_role("heading", name="Now")).to_be_visible()
    press(visitor, "ArrowLeft")
    tab_to(visitor, page.get_by_role("button", name="1 h"))
    tab_to(visitor, page.get_by_role("button", name="Back to live"))
    press(visitor, "Enter")
    expect(page.get_by_role("heading", name="Now")).to_be_visible()


def test_a_what_if_is_run_and_its_chart_read_with_keys(here: Daemon, visitor: Visitor):
    here.client.submit(bash(name="simulated", devices="2", estimate_s=60.0))
    visitor.go("/what-if")
    page = visitor.page
    tab_to(visitor, page.get_by_label("Policy"))
    page.keyboard.type("srtf")
    tab_to(visitor, page.get_by_role("button", name="Simulate"))
    press(visitor, "Enter")
    chart = page.locator("canvas").first
    expect(chart).to_be_visible()
    tab_to(visitor, chart)
    press(visitor, "PageDown")
    expect(page.locator("main")).to_contain_text("on 2 devices, from 0 s")


def test_log_in_and_out_with_keys(here: Daemon, visitor: Visitor):
    page = visitor.page
    tab_to(visitor, page.get_by_role("button", name="Log out"))
    press(visitor, "Enter")
    field = page.get_by_label("Token")
    tab_to(visitor, field)
    page.keyboard.type("wrong")
    press(visitor, "Enter")
    expect(page.get_by_role("alert")).not_to_be_empty()
    visitor.expected.add("401 (Unauthorized)")
