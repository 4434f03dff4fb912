"""Names, reasons and logs that try to be more than text: they stay text."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.control.daemons import Daemon
from tests.page.visiting import LONG, Visitor, bash
from treadle.wire.jobs import State

pytestmark = [pytest.mark.browser, pytest.mark.engine]
MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
TEMPLATE = "${document.title='owned'}</textarea>'\"`"
HEBREW = "\u05e9\u05dc\u05d5\u05dd.exe"
OVERRIDE = "# safe\u202egpj.exe"
PLACES = ("/cluster", "/jobs", "/queue", "/decisions", "/what-if")
OUTPUT = r"""
printf '%s\n' "$MARKUP"
printf '\033[31mred\033[0m \033]0;owned\007title \033]8;;http://evil.example/\033\\link\033]8;;\033\\\n'
printf '\033[2J\033[Hcleared \033[999;999H far\r\n'
printf 'safe\342\200\256gpj.exe\n'
printf '\000\001\002 nulls \377\376 bytes\n'
"""


def inert(visitor: Visitor) -> None:
    """Nothing of it became an element, and nothing ran."""
    page = visitor.page
    assert page.evaluate("document.querySelectorAll('#app img, #app script').length") == 0
    assert "owned" not in page.title()
    assert page.evaluate("document.querySelectorAll('a[href*=evil]').length") == 0


def test_names_are_text_on_every_page(here: Daemon, visitor: Visitor):
    """Those of users and tenants are letters and digits, and no name has a character that turns
    the line around: the server refuses them."""
    jobs = [here.client.submit(bash(name=name)).id for name in (MARKUP, TEMPLATE, HEBREW)]
    here.client.submit(bash(name=f"waits {MARKUP}", devices="4"))
    here.reached(State.RUNNING, *jobs)
    for where in PLACES:
        visitor.go(where)
        if where == "/what-if":
            visitor.page.get_by_role("button", name="Simulate").click()
            expect(visitor.page.locator("canvas").first).to_be_visible()
        expect(visitor.page.locator("main bdi", has_text="<img src=x").first).to_be_visible()
        inert(visitor)
    visitor.go("/jobs")
    expect(visitor.row(HEBREW).locator("bdi", has_text=HEBREW)).to_be_visible()
    expect(visitor.row("${document.title")).to_have_count(1)
    visitor.keep("hostile-jobs")


def test_a_hostile_name_in_the_question_before_a_cancel_is_text(here: Daemon, visitor: Visitor):
    job = here.client.submit(bash(name=MARKUP, held=True)).id
    visitor.go(f"/jobs/{job}")
    visitor.page.get_by_role("button", name="Cancel", exact=True).click()
    expect(visitor.page.get_by_role("dialog")).to_contain_text(MARKUP)
    inert(visitor)
    visitor.page.keyboard.press("Escape")


def test_output_is_text(here: Daemon, visitor: Visitor):
    body = f"{OUTPUT}\n{LONG} {OVERRIDE}"
    job = here.client.submit(bash(body, name="shouts", env={"MARKUP": MARKUP})).id
    visitor.go(f"/jobs/{job}")
    output = visitor.page.get_by_role("log")
    expect(output).to_contain_text(MARKUP)
    expect(output).to_contain_text("bytes")
    expect(output).to_contain_text("safe⟨U+202E⟩gpj.exe")
    lines = output.locator(".log-line").all_inner_texts()
    assert not any("\x1b" in line or "\u202e" in line for line in lines)
    assert any("red" in line and "link" in line for line in lines)
    expect(visitor.fact("Command")).to_contain_text("# safe⟨U+202E⟩gpj.exe")
    inert(visitor)
    visitor.keep("hostile-output")


def test_hostile_addresses_and_files_are_refused_in_words(visitor: Visitor, tmp_path: Path):
    page = visitor.page
    for where in (f"/{MARKUP}", "/jobs/..%2f..%2fsession", "/%E0%A4%A", f"/jobs/{MARKUP}"):
        visitor.go(where)
        expect(page.locator("main .empty, main .waiting").first).to_be_visible()
        inert(visitor)
    visitor.go("/what-if")
    file = tmp_path / "x.journal"
    file.write_text(MARKUP)
    page.locator("input[type=file]").set_input_files(file)
    expect(page.locator(".problem")).to_contain_text("neither a journal")
    inert(visitor)
    visitor.expected |= {"400 (Bad Request)", "404 (Not Found)"}
