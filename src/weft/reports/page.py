"""One self-contained HTML page: the comparison, its figures and how to run it again.

The page asks nothing of the network. Its policy (the CSP tag) allows exactly one script and one
style sheet, by their hashes, so that even a hostile job id that found its way into the markup
could not run. Data travels as JSON and reaches the document as text nodes only.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files

from weft.reports.comparison import Comparison
from weft.reports.finite import finite
from weft.reports.page_data import page_data
from weft.reports.table import comparison_table
from weft.version import __version__

# In the order in which one needs the other.
_SCRIPTS = (
    *("base.js", "axes.js", "chart.js", "summary.js", "more.js", "bars.js", "gantt.js"),
    "main.js",
)


def page(comparison: Comparison) -> str:
    """The page as text, to be written to one file."""
    style = _asset("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_asset, _SCRIPTS)) + "\n})();"
    table = comparison_table([run.summary for run in comparison.runs])
    return _filled(
        _asset("page.html"),
        {
            "policy": escape(_content_policy(script, style)),
            "title": escape(comparison.title),
            "style": style,
            "script": script,
            "data": as_script_data(page_data(comparison)),
            "table": escape(table),
            "version": escape(__version__),
        },
    )


def as_script_data(value: object) -> str:
    """JSON that no HTML parser can leave early: no angle bracket and no ampersand is literal."""
    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _content_policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src {_hash_source(script)}; style-src {_hash_source(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return files("weft.reports").joinpath("assets", name).read_text(encoding="utf-8")


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Put values into {{places}} in one pass, so that no value is itself read for places."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)
