"""Modules become one script that runs without imports."""

import re

from treadle.reports.script_bundle import bundle, static_text


def test_a_module_comes_after_those_that_it_imports():
    text = bundle("report/main.js")
    places = [text.index(f'modules["{name}"] = ') for name in ("charts/axes.js", "charts/line.js")]
    assert places == sorted(places)
    assert text.count('modules["vendor/preact-htm.js"] = ') == 1


def test_exports_keep_their_names():
    text = bundle("report/main.js")
    assert re.search(r"return \{ .*LineChart: LineChart", text)
    assert re.search(r"return \{ .*html: \w+", text)  # a list of exports under other names


def test_a_script_that_modules_need_comes_first():
    text = bundle("report/main.js", before=static_text("vendor/uplot.js"))
    assert text.index("var uPlot") < text.index("const modules")
