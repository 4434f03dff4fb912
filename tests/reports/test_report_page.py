"""The page is one self-contained file and runs no script from a trace."""

import json
import re
from html.parser import HTMLParser

import pytest

from treadle.core.allocation import Allocation
from treadle.core.cluster import Device
from treadle.reports.chart_span import chart_span
from treadle.reports.downsample import binned, peaks, sampled
from treadle.reports.page import page
from treadle.reports.page_data import page_data
from treadle.reports.run_history import Hold

HOSTILE = "</script><img src=x onerror=document.title='owned'>"


class Reader(HTMLParser):
    """Collects tags, their attributes and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.scripts = {}
        self._script = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._script = dict(attributes).get("id", "code") if tag == "script" else None

    def handle_endtag(self, tag):
        self._script = None

    def handle_data(self, text):
        if self._script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + text


def shown(comparison, **limits):
    """The first run, as the script sees it."""
    return json.loads(json.dumps(page_data(comparison, **limits)))["runs"][0]


def test_the_page_carries_its_data(comparison):
    data = json.loads(Reader(page(comparison)).scripts["data"])
    assert data["command"] == "treadle compare three.csv --cluster 1x2"
    assert [run["policy"] for run in data["runs"]] == ["fifo", "sjf"]
    assert data["runs"][0]["jct"] == {"count": 3, "values": [10, 12, 28]}
    assert data["jobs"]["ids"] == ["a", "b", "c"]
    assert data["runs"][0]["holds"]["spans"] == [1, 0, 2, 1, 0, 1, 1, 1, 1]


def test_the_page_makes_no_network_requests(comparison):
    text = page(comparison)
    reader = Reader(text)
    for tag, attributes in reader.tags:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, name)
    addresses = set(re.findall(r"https?://[^\s\"']+", text))
    # A name, which is never fetched, and a comment with the origin of a library.
    assert addresses == {"http://www.w3.org/2000/svg", "https://github.com/leeoniya/uPlot"}
    policies = [a["content"] for _, a in reader.tags if a.get("http-equiv")]
    assert policies[0].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policies[0]
    assert not re.search(r"@import|url\((?!#)", text)


def test_the_largest_holds_are_kept_and_the_rest_counted(comparison):
    holds = shown(comparison, holds_max=2)["holds"]
    assert len(holds["job"]) == 2
    assert (holds["from_s"], holds["lasts_s"]) == ([0, 10], [10, 20])
    assert holds["total"] == 3
    assert holds["shown_share"] == pytest.approx(40 / 44)


def test_devices_of_nodes_that_joined_later_get_rows_at_the_end(comparison):
    run = comparison.runs[0]
    late = Allocation((Device("late", 3), Device("n0", 1)))
    run.recorder.holds.append(Hold("a", late, 30, 31))
    first = shown(comparison)
    assert first["nodes"] == [["n0", 2], ["late", 4]]
    assert first["holds"]["spans"][-5:] == [2, 1, 1, 5, 1]


def test_bins_hold_time_weighted_means():
    # 4 until 1.5 s, then 2 until 3 s, then the end; bins of one second.
    values = binned([0, 1.5, 3], [4, 2, 9], from_at=0, step_s=1, bins=4)
    assert values == [4, 3, 2, 0]


def test_bins_keep_the_peak_however_short():
    values = peaks([0, 1.5, 1.6, 3], [4, 62, 2, 9], from_at=0, step_s=1, bins=4)
    assert values == [4, 62, 2, 0]


def test_bins_of_a_part_begin_in_the_middle():
    # 4 until 3 s and then 2 until 6 s, looked at from 2 s to 4 s.
    assert binned([0, 3, 6], [4, 2, 0], from_at=2, step_s=1, bins=2) == [4, 2]
    assert peaks([0, 3, 6], [4, 2, 0], from_at=2, step_s=1, bins=2) == [4, 2]


def test_a_long_thin_end_is_cut_at_first(with_long_tail):
    shown_first = chart_span(with_long_tail)
    assert 90 < shown_first.length_s < 110
    assert shown_first.cut_s == pytest.approx(10_000 - shown_first.length_s)
    assert shown_first.cut_devices == 1
    data = json.loads(json.dumps(page_data(with_long_tail)))
    assert [bins for _, _, bins in data["pieces"]] == [1500, 300]
    assert len(data["runs"][0]["busy"]) == 1801 - 1


def test_long_distributions_keep_their_ends():
    short = json.loads(json.dumps(sampled(range(5001))))
    assert short["count"] == 5001
    assert len(short["values"]) == 1000
    assert (short["values"][0], short["values"][-1]) == (0, 5000)
