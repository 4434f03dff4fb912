"""`treadle analyze` as a person meets it."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import run

TRACE = """id,submit_s,sizes,iterations,status
first,0,2,100,passed
second,10,1,50,killed
third,20,4,100,unsuccessful
"""
TEXT = """Analysis of three.csv
3 jobs on 2 nodes with 4 devices over 3.33 min, simulated under backfill, as the trace does not say
when its jobs ran

HOW JOBS ENDED
ended         jobs  of jobs  device hours  of device hours
────────────  ────  ───────  ────────────  ───────────────
unsuccessful     1    33.3%          0.11            61.5%
passed           1    33.3%          0.06            30.8%
killed           1    33.3%          0.01             7.7%

WAITING
devices  jobs  waited    mean     p50     p90     p99  all, hours
───────  ────  ──────  ──────  ──────  ──────  ──────  ──────────
all         3       1  26.7 s  0.00 s  64.0 s  78.4 s        0.02
1           1       0  0.00 s  0.00 s  0.00 s  0.00 s        0.00
2-4         2       1  40.0 s  40.0 s  72.0 s  79.2 s        0.02

Why they waited, shares of the time
devices  devices  fragmentation  order
───────  ───────  ─────────────  ─────
all       100.0%           0.0%   0.0%
2-4       100.0%           0.0%   0.0%

DEVICE TIME BY SIZE AND SPREAD
Jobs held 0.18 device hours, 81.2% of what the cluster had from first to last; 100.0% of them turned
into progress.
How busy the devices themselves were is not recorded.

devices  nodes  holds  device hours  of device hours  progress
───────  ─────  ─────  ────────────  ───────────────  ────────
1            1      1          0.01             7.7%    100.0%
2-4          1      1          0.06            30.8%    100.0%
2-4          2      1          0.11            61.5%    100.0%

FAILURES
Attempts and reasons are not recorded; 1 job of 3 ended unsuccessful after 0.11 device hours, 61.5%
of all.
"""
FAILING = ("generate:philly?jobs=60&longest=3600", "--job-failures", "3", "--retries", "2")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("three.csv").write_text(TRACE)


@pytest.fixture
def journal() -> str:
    assert run(["simulate", *FAILING, "--policy", "philly", "--journal", "run.jsonl"]) == 0
    return "run.jsonl"


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert run(["analyze", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.removeprefix("treadle: ").removesuffix("\n")


def analysed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert run(["analyze", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_trace_is_simulated_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "three.csv", "--cluster", "2x2"]) == 0
    assert capsys.readouterr().out == TEXT


def test_everything_is_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = analysed(capsys, *FAILING)
    assert list(found) == [
        *("name", "how", "jobs", "nodes", "devices", "span_s", "ends", "waits", "usage"),
        *("failures", "spells", "notes"),
    ]
    assert found["failures"]["attempts"] > 0


def test_a_journal_says_what_the_run_said(capsys: pytest.CaptureFixture[str], journal: str) -> None:
    run_of = analysed(capsys, *FAILING, "--policy", "philly")
    found = analysed(capsys, journal)
    assert found["how"] == "replayed from a journal, under philly"
    for part in ("waits", "usage", "failures", "jobs", "devices", "span_s"):
        assert found[part] == run_of[part]


def test_a_journal_takes_no_options_of_a_run(
    capsys: pytest.CaptureFixture[str], journal: str
) -> None:
    assert refused(capsys, journal, "--policy", "fifo").endswith("remove --policy")
    assert refused(capsys, journal, "--cluster", "1x2").endswith("remove --cluster")


def test_a_journal_that_was_cut_off_is_analysed_up_to_there(
    capsys: pytest.CaptureFixture[str], journal: str
) -> None:
    whole = Path(journal).read_bytes()
    Path("cut.jsonl").write_bytes(whole[: len(whole) // 2])
    found = analysed(capsys, "cut.jsonl")
    assert found["notes"] == ["the journal ends in the middle of a line, which is left out"]
    assert {"waiting", "running"} & {end["status"] for end in found["ends"]}


def test_bad_journals_are_refused(capsys: pytest.CaptureFixture[str], journal: str) -> None:
    """Cut, foreign, without jobs, packed, with lines missing, and with settings that are none."""
    first, *lines = Path(journal).read_bytes().splitlines(keepends=True)
    rest, later = b"".join(lines), lines[len(lines) // 3 :]
    unnumbered = [re.sub(rb'"line":\d+,', b"", line) for line in later]
    for content in (
        first[:80],
        b'{"jobs": []}\n',
        first,
        gzip.compress(first + rest),
        first + b"".join(later),
        first + b"".join(unnumbered),
        first.replace(b'"policy":"philly"', b'"policy":"phily"') + rest,
        first.replace(b'"policy":"philly"', b'"policy":7') + rest,
    ):
        Path("bad.jsonl").write_bytes(content)
        assert len(refused(capsys, "bad.jsonl").splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["none.csv"],
        ["."],
        ["three.csv", "--report", "no/x.html"],
        ["three.csv", "--rules", "no.yaml"],
        ["three.csv", "--cluster", "1x2"],
    ],
)
def test_bad_input_is_one_sentence(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert len(refused(capsys, *words).splitlines()) == 1


def test_a_report_is_written_whole_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["analyze", "three.csv", "--cluster", "2x2"]
    assert run([*words, "--report", "out.html"]) == 0
    assert capsys.readouterr().out == TEXT + "report   out.html\n"
    page = Path("out.html").read_text()
    command = "treadle analyze three.csv --cluster 2x2 --report out.html"
    assert command in page
    assert [path.name for path in Path().iterdir() if "out.html" in path.name] == ["out.html"]
