"""What people type and what others serve must not break the page.

A test that is expected to fail shows a defect that is open, and fails if it no longer does.
"""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.control.daemons import Daemon
from tests.page.visiting import bash, visiting

pytestmark = [pytest.mark.browser, pytest.mark.engine]


@pytest.mark.xfail(strict=True, reason="defect: words of JavaScript's objects are taken for fields")
@pytest.mark.parametrize("where", ["/constructor", "/__proto__", "/jobs?show=constructor"])
def test_an_address_with_a_word_of_javascript_is_an_address(
    browser: Browser, here: Daemon, where: str
):
    here.client.submit(bash(name="one", held=True))
    with visiting(browser, here) as visitor:
        visitor.log_in(where)
        expect(visitor.page.locator("main .empty, main .jobs-page").first).to_be_visible()
        expect(visitor.page.locator("main")).not_to_contain_text("made a mistake", timeout=1500)


@pytest.mark.xfail(strict=True, reason="defect: a page that made a mistake stays above the next")
def test_a_mistake_of_one_page_does_not_stay_above_the_next(browser: Browser, here: Daemon):
    here.client.submit(bash(name="one", held=True))
    with visiting(browser, here) as visitor:
        visitor.log_in("/jobs")
        expect(visitor.row("one")).to_be_visible()
        visitor.page.get_by_label("Filter jobs").fill("constructor:x")
        visitor.go("/queue")
        expect(visitor.page.get_by_role("heading", name="Queue and shares")).to_be_visible()
        expect(visitor.page.get_by_role("heading", level=1)).to_have_count(1, timeout=1500)


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
