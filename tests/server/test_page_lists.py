"""What the page knows by heart is what the program has."""

import re
from importlib.resources import files

from treadle.policies.registry import BUILT_IN

STATIC = files("treadle").joinpath("server/static")


def test_the_page_offers_every_policy():
    text = STATIC.joinpath("pages/policies.js").read_text()
    assert re.findall(r'"([\w-]+)"', text) == list(BUILT_IN)
