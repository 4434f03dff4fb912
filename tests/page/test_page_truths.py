"""What the page says is so, also when answers are late, jobs have ended or files come from disk."""

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.control.daemons import Daemon
from tests.control.warm_start import ran
from tests.page.visiting import LONG, Visitor, bash, visiting
from treadle.wire.jobs import State

pytestmark = [pytest.mark.browser, pytest.mark.engine]


def simulated(*words: str) -> str:
    """What a command prints of a small trace."""
    trace = ["generate:philly?jobs=20&seed=1", "--cluster", "2x8"]
    return ran(words[0], *trace, *words[1:]).stdout


def test_decisions_name_jobs_that_ended_before_the_tab_was_opened(browser: Browser, here: Daemon):
    here.ended(here.client.submit(bash("true", name="long-gone")).id)
    with visiting(browser, here) as visitor:
        visitor.log_in("/decisions")
        card = visitor.page.locator(".decision").filter(has_text="long-gone")
        expect(card.first).to_contain_text("start")
        expect(visitor.page.get_by_role("img", name=re.compile("CPU time"))).to_be_visible()
        visitor.check()


def test_nodes_say_their_rack_how_their_agents_do_and_that_they_are_drained(
    browser: Browser, here: Daemon
):
    with visiting(browser, here) as visitor:
        now = time.time()
        states: dict[str, dict[str, object]] = {
            "a": {"health": "answers", "rack": "r1"},
            "b": {"health": "silent", "since_at": now - 3600.0, "drained": True},
            "c": {"health": "lost", "since_at": now - 7200.0, "because": "Ray says it died"},
            "d": {"health": "lost", "since_at": now - 60.0, "noticed": True},
            "e": {"health": "joining", "warning": "2 nodes of the Ray cluster are called e"},
        }

        def answer(route: Route) -> None:
            (one,) = route.fetch().json()
            route.fulfill(json=[one, *({**one, "name": n, **s} for n, s in states.items())])

        visitor.page.route("**/api/v1/nodes", answer)
        visitor.log_in()
        node = visitor.page.get_by_role("region", name=re.compile("^Node [a-e]$"))
        for place, pattern in enumerate(
            (
                "· rack r1 ·.*its agent answers",
                "its agent is silent: its last answer was 1 h.* ago.*drained: it takes no new jobs",
                "it was lost 2 h.* ago: Ray says it died",
                "it is lost, which was noticed 1 min.* ago",
                "its agent has not answered yet.*2 nodes of the Ray cluster are called e",
            )
        ):
            expect(node.nth(place)).to_contain_text(re.compile(pattern, re.DOTALL))
        visitor.check()


def test_a_node_that_is_drained_says_so_at_once(here: Daemon, visitor: Visitor):
    (name,) = [node.name for node in here.client.nodes()]
    node = visitor.page.get_by_role("region", name=f"Node {name}")
    expect(node).to_contain_text("devices held")
    expect(node).not_to_contain_text("drained")
    here.client.order_node(name, "drain")
    expect(node).to_contain_text("it is drained: it takes no new jobs")
    here.client.order_node(name, "undrain")
    expect(node).not_to_contain_text("drained")


def test_reports_and_journals_are_opened_from_disk(visitor: Visitor, tmp_path: Path):
    journal = tmp_path / "run.journal"
    (tmp_path / "two.json").write_text(simulated("compare", "--policies", "fifo,srtf", "--json"))
    one = simulated("simulate", "--policy", "las", "--journal", str(journal), "--json")
    (tmp_path / "one.json").write_text(one)
    visitor.go("/what-if")
    page, files = visitor.page, visitor.page.locator("input[type=file]")
    files.set_input_files(tmp_path / "two.json")
    expect(page.locator("main")).to_contain_text("2 simulated runs, each beside the first")
    expect(page.get_by_role("row").filter(has_text="srtf")).to_contain_text(
        re.compile(r"×|the same")
    )
    expect(page.get_by_role("row").filter(has_text="fifo")).not_to_contain_text("×")
    files.set_input_files(tmp_path / "one.json")
    expect(page.get_by_role("row").filter(has_text="las")).to_be_visible()
    files.set_input_files(journal)
    expect(page.locator("main")).to_contain_text("policy las")
    expect(page.locator("canvas")).to_be_visible()


def test_files_that_lack_something_are_refused_in_words(visitor: Visitor, tmp_path: Path):
    visitor.go("/what-if")
    file = tmp_path / "half.json"
    for text, words in (
        ('{"now": {}, "then": {}, "spells_now": []}', "neither a journal"),
        ('{"runs": [{"policy": "fifo", "jct_mean_s": "soon"}]}', "neither a journal"),
        ('{"kind": "Opened", "at": 0}\n{"kind": "Start"}', "cannot be read as one"),
    ):
        file.write_text(text)
        visitor.page.locator("input[type=file]").set_input_files(file)
        expect(visitor.page.locator(".problem")).to_contain_text(words)


def test_a_line_of_output_that_never_ends_does_not_fill_the_tab(visitor: Visitor):
    found = visitor.page.evaluate("""async () => {
      const { LogLines } = await import("/static/parts/log-lines.js");
      const log = new LogLines();
      for (let piece = 0; piece < 300; piece += 1) log.add(`${"x".repeat(9999)}\\r`);
      const kept = log.lines[0].length;
      const said = log.spans(0)[0].text;
      log.add("end\\nnext\\n");
      return [kept, said, log.length, log.lines[1], log.spans(1)[0].text];
    }""")
    assert found[0] <= 100_000
    assert found[1] == "⟨2996000 characters not shown⟩ "
    assert found[2:] == [2, "next", "next"]


def test_what_changes_while_it_is_read_is_read_again(visitor: Visitor):
    """1. A page reads. 2. Something changes. 3. The answer comes, from before: it reads again."""
    answers = visitor.page.evaluate("""async () => {
      const { useReading } = await import("/static/pages/reading.js");
      const { changed } = await import("/static/state.js");
      const { html, render } = await import("/static/vendor/preact-htm.js");
      const asked = [];
      const read = () => new Promise((answer) => asked.push(answer));
      const frame = document.createElement("div");
      const Shown = () => html`<b>${useReading(read, ["a test"]).value}</b>`;
      render(html`<${Shown} />`, frame);
      const end = performance.now() + 15000;
      const until = async (is) => {
        while (!is()) {
          if (performance.now() > end) throw new Error(`it read ${asked.length} times`);
          await new Promise(requestAnimationFrame);
        }
      };
      await until(() => asked.length === 1);
      changed("a test");
      await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      asked[0]("before");
      await until(() => asked.length === 2);
      asked[1]("after");
      await until(() => frame.textContent === "after");
      render(null, frame);
      return asked.length;
    }""")
    assert answers == 2


def test_the_stream_leaves_nothing_behind_for_each_frame(browser: Browser, here: Daemon):
    with visiting(browser, here) as visitor:
        visitor.page.add_init_script("""
          window.heard = 0;
          const listen = AbortSignal.prototype.addEventListener;
          AbortSignal.prototype.addEventListener = function (...rest) {
            window.heard += 1;
            return listen.apply(this, rest);
          };""")
        visitor.log_in("/jobs")
        expect(visitor.page.locator(".link")).to_have_text("live")
        before = visitor.page.evaluate("window.heard")
        for number in range(5):
            here.client.submit(bash(name=f"frame-{number}", held=True))
            expect(visitor.row(f"frame-{number}")).to_be_visible()
        assert visitor.page.evaluate("window.heard") == before
        visitor.check()


def test_the_active_row_stays_with_its_job(here: Daemon, visitor: Visitor):
    here.client.submit(bash(name="chosen-one", held=True))
    visitor.go("/jobs")
    expect(visitor.row("chosen-one")).to_be_visible()
    table = visitor.page.locator(".window-list")
    table.focus()
    table.press("Home")
    here.client.submit(bash(name="newer", held=True))
    expect(visitor.row("newer")).to_be_visible()
    expect(visitor.page.locator(".job-row.active")).to_contain_text("chosen-one")
    table.press("Enter")
    expect(visitor.page.get_by_role("heading", name="chosen-one")).to_be_visible()


def test_a_job_that_waits_shows_no_devices_of_the_job_looked_at_before(
    here: Daemon, visitor: Visitor
):
    first = here.client.submit(bash(name="holds", devices="3")).id
    here.reached(State.RUNNING, first)
    second = here.client.submit(bash(name="stands-by", devices="4")).id
    visitor.expected.add("404 (Not Found)")  # It may have written nothing yet.
    visitor.go(f"/jobs/{first}")
    expect(visitor.page.get_by_label("Devices over time")).to_be_visible()
    visitor.go(f"/jobs/{second}")
    expect(visitor.page.get_by_role("heading", name="stands-by")).to_be_visible()
    expect(visitor.page.get_by_label("Why", exact=True)).to_contain_text("Why it waits")
    expect(visitor.page.get_by_label("Devices over time")).to_have_count(0)


def test_output_is_followed_that_was_not_there_yet(here: Daemon, visitor: Visitor):
    job = here.client.submit(bash(f"echo first words; {LONG}", name="speaks")).id
    here.reached(State.RUNNING, job)
    visitor.expected.add("404 (Not Found)")
    refused = {"detail": "nothing is written"}
    visitor.page.route("**/log?*", lambda route: route.fulfill(status=404, json=refused))
    visitor.go(f"/jobs/{job}")
    expect(visitor.page.get_by_role("log")).to_contain_text("first words")
    expect(visitor.page.locator(".problem")).to_have_count(0)
