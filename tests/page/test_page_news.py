"""What the daemon says is shown, whatever the page is doing when it comes."""

import pytest
from playwright.sync_api import Route, expect

from tests.control.daemons import Daemon
from tests.page.visiting import Visitor, bash

pytestmark = [pytest.mark.browser, pytest.mark.engine]

# The jobs are known again between the first drawing of their page and the screen's next frame.
NEWS_BEFORE_THE_FRAME = """async () => {
  const { replaceJobs, state } = await import("/static/state.js");
  const jobs = [...state.jobs.values()];
  replaceJobs([]);
  const drawn = new Promise((done) => {
    const watcher = new MutationObserver(() => {
      if (!document.querySelector(".jobs-page")) return;
      watcher.disconnect();
      replaceJobs(jobs);
      done();
    });
    watcher.observe(document.body, { childList: true, subtree: true });
  });
  location.hash = "#/jobs";
  await drawn;
}"""
TWO_FRAMES = "new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"


def test_news_that_come_while_a_page_opens_are_shown(here: Daemon, visitor: Visitor):
    """A page that listened only from its first frame on missed them, for ever if nothing followed:
    a held job does not change."""
    here.client.submit(bash(name="just-now", held=True))
    visitor.go("/jobs")
    expect(visitor.row("just-now")).to_be_visible()
    visitor.go("/cluster")
    expect(visitor.page.locator(".tile")).to_have_count(4)
    visitor.page.evaluate(NEWS_BEFORE_THE_FRAME)
    visitor.page.evaluate(TWO_FRAMES)
    assert visitor.row("just-now").count() == 1, visitor.page.locator(".job-table").inner_text()


def test_a_refusal_of_the_session_before_does_not_end_this_one(here: Daemon, visitor: Visitor):
    """1. A request of the page is on its way for long. 2. Its user logs out, and in again. 3. The
    answer comes: the session that it was asked in is over."""
    job = here.client.submit(bash(name="looked-at", held=True)).id
    page, late = visitor.page, list[Route]()

    def hold(route: Route) -> None:
        late.append(route)

    page.route("**/api/v1/decisions*", hold)
    with page.expect_request("**/api/v1/decisions*"):
        visitor.go(f"/jobs/{job}")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    visitor.log_in("/jobs")
    expect(visitor.row("looked-at")).to_be_visible()
    visitor.expected.add("401 (Unauthorized)")
    with page.expect_response("**/api/v1/decisions*") as answer:
        late[0].continue_()
    assert answer.value.status == 401
    answer.value.finished()
    page.evaluate(TWO_FRAMES)
    expect(visitor.row("looked-at")).to_be_visible()
    expect(visitor.nav).to_be_visible()
