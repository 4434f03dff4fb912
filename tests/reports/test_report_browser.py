"""The page in a real browser: it draws, reacts, and runs no script from a trace."""

import json
import re
import subprocess
from dataclasses import replace

import pytest
from tests.shared import CHROMIUM

from treadle.core.cluster import Cluster
from treadle.reports.comparison import Comparison, colour
from treadle.reports.document import Document, Section, Table, Tile
from treadle.reports.document_page import document_page
from treadle.reports.page import page
from treadle.reports.page_data import page_data

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here; apt-get install chromium to run browser tests"
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=4000", "--window-size=1280,3000"),
)
HOSTILE = "</script><img src=x onerror=document.title='owned'>"
# Runs after the page's own script, as a reader would use it.
READER = """<script>
const click = (text, at = document) =>
  [...at.querySelectorAll("button")].find((b) => b.textContent.trim() === text).click();
const over = (node, type, more = {}) => {
  const box = node.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + 30, bubbles: true,
    cancelable: true, pointerId: 1, ...more };
  node.dispatchEvent(type === "wheel" ? new WheelEvent(type, at) : new PointerEvent(type, at));
};
// How many points of a chart have a colour, as opaque as asked for.
const inked = (chart, colour, [least, most] = [250, 255]) => {
  const shown = document.querySelector(`${chart} .chart canvas`);
  const { width, height } = shown;
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.drawImage(shown, 0, 0);
  const wanted = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    const isNear = wanted.every((value, part) => Math.abs(value - data[at + part]) < 8);
    if (isNear && data[at + 3] >= least && data[at + 3] <= most) found += 1;
  }
  return found;
};
const CHARTS = ["#jct", "#busy", "#waiting", "#fairness"];
const note = (name, value) => { document.documentElement.dataset[name] = JSON.stringify(value); };
setTimeout(() => { %s }, 300);
</script></body>"""


@pytest.fixture
def look(tmp_path):
    """Open a page, do something with it, and return its document and what the console said."""

    def _look(text: str, action: str = "") -> tuple[str, list[str]]:
        if action:
            text = re.sub(r"<meta http-equiv=[^>]*>", "", text)
            text = text.replace("</body>", READER % action)
        file = tmp_path / "page.html"
        file.write_text(text)
        assert CHROMIUM is not None
        done = subprocess.run(
            [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'user'}", "--dump-dom", file.as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return done.stdout, said

    return _look


def test_everything_is_drawn_without_a_word_on_the_console(look, comparison):
    document, said = look(page(comparison))
    assert said == []
    assert '<html lang="en" class="drawn">' in document
    assert document.count('class="tile-value"') == 4
    assert "16.7 s" in document
    main = document[document.index("<main") : document.index("</main>")]
    assert main.count('class="legend-name"') == 10  # five charts, two runs
    assert main.count('class="stack-part"') == 6
    assert "By tenant" in document
    assert "Trace: three jobs by hand." in document
    assert "<canvas" in document
    assert document.count(">same for all<") == 4  # Both runs are the same.
    assert 'class="best"' not in document
    more = document[document.index('class="numbers more"') :]
    for title in ("p90 JCT", "Blocking index", "Restarts", "Lost GPU hours", "Decisions"):
        assert f">{title}</th>" in more
    assert "<td>24.8 s</td>" in more


def test_hostile_names_are_shown_and_do_not_run(look, three_jobs, run_of):
    names = (HOSTILE, "b", "c")
    runs = [run_of(three_jobs(names, tenants=(HOSTILE, "t", "t")), HOSTILE)]
    text = page(Comparison(HOSTILE, HOSTILE, [HOSTILE], Cluster.grid(1, 2), runs))
    document, said = look(text)
    assert said == []
    assert "<title>owned" not in document
    assert "<img" not in document
    assert "&lt;/script&gt;&lt;img src=x" in document


def test_a_click_chooses_the_baseline_and_sorts(look, comparison):
    action = """
      document.querySelectorAll(".baseline")[1].click(); click("Mean JCT");"""
    document, said = look(page(comparison), action)
    assert said == []
    assert "Compared with <b>sjf</b>" in document
    assert 'aria-sort="ascending"' in document


def test_pointing_at_a_hold_names_its_job(look, comparison):
    action = """const canvas = document.querySelector("#gantt canvas");
      over(canvas, "pointermove", { clientX: canvas.getBoundingClientRect().left + 100 });"""
    document, said = look(page(comparison), action)
    assert said == []
    assert "<b>job a</b> on 2 devices, tenant red, from 0.00 s to 10.0 s, held 10.0 s" in document


def test_a_long_thin_end_is_cut_and_said_until_all_is_asked_for(look, with_long_tail):
    document, said = look(page(with_long_tail))
    assert said == []
    assert "0.00 s to 103 s" in document
    assert (
        "The charts end at 103 s: in the 2.75 h after it at most 1 device of 16 was in "
        "use, 86.1 % of all device time."
    ) in document
    document, said = look(page(with_long_tail), 'click("Show all");')
    assert said == []
    assert ">all 2.78 h<" in document
    assert '<p class="cut"></p>' in document


def test_the_longest_queue_is_drawn_and_said(look, comparison, monkeypatch):
    def with_peaks(whole):
        data = json.loads(json.dumps(page_data(whole)))
        for run in data["runs"]:
            run["waiting_max"] = [6] * len(run["waiting"])
        return data

    monkeypatch.setattr("treadle.reports.page.page_data", with_peaks)
    action = f"""const band = (chart) => inked(chart, "{colour(0)}", [30, 120]) > 5000;
      note("bands", [band("#waiting"), band("#busy")]);"""
    document, said = look(page(replace(comparison, runs=comparison.runs[:1])), action)
    assert said == []
    assert 'data-bands="[true,false]"' in document
    assert '<span class="legend-value">0.53, max 2</span>' in document


def test_a_legend_button_hides_a_run_everywhere(look, comparison):
    """The second run is switched off in one chart; the first, which it hid, shows in all."""
    action = f"""document.querySelectorAll("#jct .legend button")[1].click();
      const has = (one) => CHARTS.map((chart) => inked(chart, one) > 300);
      setTimeout(() => note("left", [has("{colour(0)}"), has("{colour(1)}")].flat()), 300);"""
    document, said = look(page(comparison), action)
    assert said == []
    assert f'data-left="[{",".join(["true"] * 4 + ["false"] * 4)}]"' in document


def test_the_values_of_a_chart_are_there_as_a_table(look, comparison):
    document, said = look(
        page(comparison), 'document.querySelector("#jct .chart-data").open = true;'
    )
    assert said == []
    assert '<caption class="hidden-text">Completion times of finished jobs, cumulative<' in document
    assert '<th scope="row">Within 12.0 s</th><td>66.7 %</td><td>66.7 %</td>' in document


def test_a_document_is_shown_without_a_word_on_the_console(look):
    table = Table(
        HOSTILE, ("size", HOSTILE), [("all", HOSTILE)], parts=("a", "b"), shares=[(0.7, 0.3)]
    )
    text = document_page(
        Document(
            title=HOSTILE,
            facts="2 jobs",
            command=HOSTILE,
            tiles=[Tile("Mean wait", "3 s", HOSTILE)],
            sections=[Section("Waiting", "What it means.", [HOSTILE], [table])],
            notes=[HOSTILE],
        )
    )
    document, said = look(text)
    assert said == []  # No refused style either: bars are drawn by attributes.
    assert "<title>owned" not in document
    assert "<img" not in document
    assert 'class="tile-value"' in document
    assert document.count("<rect") == 4  # two in the key, two in the bar
