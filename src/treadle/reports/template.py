"""Templates of self-contained pages, with a content security policy that allows nothing else.

The policy (the CSP tag) names the page's own script and style sheet by their hashes, so that a
hostile job id could not run even if it got into the markup.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files


def asset(name: str) -> str:
    """The text of a file that ships with the reports."""
    return files("treadle.reports").joinpath("assets", name).read_text(encoding="utf-8")


def filled(template: str, values: Mapping[str, str]) -> str:
    """Replace {{names}} with values in one pass, so that values are not expanded again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def content_policy(style: str, script: str | None = None) -> str:
    """The content policy: apply this style, run this script if any, and nothing else."""
    runs = "" if script is None else f"script-src {_hash_source(script)}; "
    return (
        f"default-src 'none'; {runs}style-src {_hash_source(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
