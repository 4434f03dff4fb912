"""What people type and what others serve must not break the page."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.control.daemons import Daemon
from tests.page.visiting import Visitor, bash, visiting

pytestmark = [pytest.mark.browser, pytest.mark.engine]


@pytest.mark.parametrize(
    "where", ["/constructor", "/jobs?show=constructor&sort=__proto__&group=valueOf"]
)
def test_an_address_with_a_word_of_javascript_is_an_address(
    browser: Browser, here: Daemon, where: str
):
    here.client.submit(bash(name="one", held=True))
    with visiting(browser, here) as visitor:
        visitor.log_in(where)
        expect(visitor.page.locator("main .empty, main .jobs-page").first).to_be_visible()
        expect(visitor.page.locator("main")).not_to_contain_text("made a mistake", timeout=1500)


def test_a_mistake_of_one_page_does_not_stay_above_the_next(here: Daemon, visitor: Visitor):
    """A job without a user is drawn, and makes the page fail when it is searched for one."""
    here.client.submit(bash(name="one", held=True))
    page = visitor.page
    visitor.go("/jobs")
    expect(visitor.row("one")).to_be_visible()
    strange = {"id": "x", "name": "strange", "state": "FAILED", "because": "", "submitted_at": 0}
    strange |= {"devices": [], "beside": [], "sizes": [1], "running_s": 0}
    answer = {"jobs": [strange], "cursor": ""}
    page.route("**/api/v1/jobs?ended=*", lambda route: route.fulfill(json=answer))
    page.locator("label", has_text="Show").locator("select").select_option("all")
    expect(visitor.row("strange")).to_be_visible()
    page.get_by_label("Filter jobs").fill("zzz")
    expect(page.locator("main")).to_contain_text("made a mistake")
    expect(visitor.row("one")).to_have_count(0)
    visitor.go("/queue")
    expect(page.get_by_role("heading", name="Queue and shares")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.locator("main")).not_to_contain_text("made a mistake")
    visitor.expected |= {"TypeError"}


class _Clobbers(BaseHTTPRequestHandler):
    """A page of another user on another port of this machine."""

    def do_GET(self) -> None:
        name = f"treadle_session_{self.path.strip('/')}"
        self.send_response(200)
        self.send_header("Set-Cookie", f"{name}=x; Path=/api; Max-Age=9999")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def test_a_cookie_of_another_port_shuts_nobody_out(browser: Browser, here: Daemon):
    other = HTTPServer(("127.0.0.1", 0), _Clobbers)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        link = here.client.session_link().url
        port = urlsplit(link).port
        with visiting(browser, here) as visitor:
            visitor.page.goto(f"http://127.0.0.1:{other.server_port}/{port}")
            visitor.page.goto(link)
            expect(visitor.nav).to_be_visible(timeout=5000)
            visitor.page.reload()
            expect(visitor.nav).to_be_visible(timeout=5000)
    finally:
        other.shutdown()
        other.server_close()
