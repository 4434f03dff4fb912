"""Names, reasons and logs that try to be more than text: they stay text."""

import json
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


OPENED = {"kind": "Opened", "at": 0, "cluster": {"nodes": [{"name": "a", "device_count": 1}]}}
RUNS = {"policy": "fifo", "cluster": "1x1", "jobs": 1, "ended": 1, "mean_completion_s": 1}
RUNS |= {"p90_completion_s": 1, "makespan_s": 1}
SPELL = {"job": "1", "devices": ["a:0"], "from_s": 0, "to_s": 1}


def answer(*devices: str, to_s: float = 1) -> str:
    """What the page saves, with one spell."""
    spell = SPELL | {"devices": devices, "to_s": to_s}
    lists = {"jobs": [], "notes": [], "spells_now": [spell], "spells_then": [SPELL]}
    return json.dumps({"at": 1e9, "now": RUNS, "then": RUNS, **lists})


def journal(*devices: int, nodes: int = 1, at: float = 5) -> str:
    node = {"name": "a", "device_count": nodes}
    allocation = {"devices": [["a", number] for number in devices]}
    start = {"kind": "Start", "at": 1, "job": "1", "allocation": allocation}
    ended = {"kind": "JobFinished", "at": at, "job": "1"}
    first = OPENED | {"cluster": {"nodes": [node]}}
    return "\n".join(map(json.dumps, (first, start, ended)))


def test_files_that_would_hang_the_tab_are_refused_in_one_sentence(
    visitor: Visitor, tmp_path: Path
):
    hostile = {
        "long": answer("a:0", to_s=1e300),
        "backwards": answer("a:0", to_s=-1),
        "high": answer("a:50000000"),
        "many": answer(*(f"a:{number}" for number in range(20_000))),
        "same": answer(*["a:0"] * 200_000),
        "nameless": answer("a:-1"),
        "wide": journal(0, nodes=10**9),
        "late": journal(0, at=1e300),
        "numbered": journal(10**8),
    }
    page = visitor.go("/what-if").page
    for name, text in hostile.items():
        file = tmp_path / f"{name}.json"
        file.write_text(text)
        page.locator("input[type=file]").set_input_files(file)
        expect(page.locator(".problem")).to_contain_text(f"{name}.json cannot be drawn")
    for name, text in {"good-answer": answer("a:0", "a:1"), "good-journal": journal(0)}.items():
        file = tmp_path / name
        file.write_text(text)
        page.locator("input[type=file]").set_input_files(file)
        expect(page.locator("main")).to_contain_text(name)
        expect(page.locator("canvas").first).to_be_visible()


def test_numbers_in_the_place_of_lists_are_refused(visitor: Visitor, tmp_path: Path):
    file = tmp_path / "numbers.json"
    file.write_text(json.dumps({"now": 1, "then": 1, "spells_now": 1}))
    visitor.go("/what-if").page.locator("input[type=file]").set_input_files(file)
    expect(visitor.page.locator(".problem")).to_contain_text("neither a journal")
