"""One self-contained HTML page: the comparison, its figures and how to run it again.

The page makes no network requests (`template.py`). Data is embedded as JSON and inserted into the
document as text nodes only.
"""

import json
from html import escape

from treadle.reports.comparison import Comparison
from treadle.reports.json_numbers import finite
from treadle.reports.page_data import page_data
from treadle.reports.script_bundle import bundle, static_text
from treadle.reports.table import comparison_table
from treadle.reports.template import asset, content_policy, filled
from treadle.version import __version__


def page(comparison: Comparison) -> str:
    """The page as text, to be written to one file."""
    style = static_text("charts/charts.css") + asset("page.css")
    script = bundle("report/main.js", before=static_text("vendor/uplot.js"))
    table = comparison_table([run.summary for run in comparison.runs])
    return filled(
        asset("page.html"),
        {
            "policy": escape(content_policy(style, script)),
            "title": escape(comparison.title),
            "style": style,
            "script": script,
            "data": as_script_data(page_data(comparison)),
            "table": escape(table),
            "version": escape(__version__),
        },
    )


def as_script_data(value: object) -> str:
    """JSON that is safe inside a script element: angle brackets and ampersands are escaped."""
    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
