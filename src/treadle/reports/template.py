"""Pages that ask nothing of the network: templates to fill, and a policy that allows no more.

The policy (the CSP tag) names the page's own script and style sheet by their hashes, so that even a
hostile job id that found its way into the markup could not run.
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
    """Put values into {{places}} in one pass, so that no value is itself read for places."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def content_policy(style: str, script: str | None = None) -> str:
    """What a browser may do with the page: apply this style, run this script if any."""
    runs = "" if script is None else f"script-src {_hash_source(script)}; "
    return (
        f"default-src 'none'; {runs}style-src {_hash_source(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
