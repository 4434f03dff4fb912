"""Sentences of the page say what the command line says, and nothing that is not so."""

import pytest
from playwright.sync_api import Route, expect

from tests.control.daemons import Daemon
from tests.page.visiting import Visitor, bash

pytestmark = [pytest.mark.browser, pytest.mark.engine]


def test_a_range_from_now_on_is_a_bound(visitor: Visitor):
    ranges = visitor.page.evaluate(
        """async () => {
          const { range } = await import("/static/parts/format.js");
          const ends = [[0, 200], [0.2, 22], [null, 5], [0, 0], [60, null], [null, null], [60, 80]];
          return ends.map(([low, high]) => range(low, high));
        }"""
    )
    assert ranges == [
        "at most 3 min",
        "at most 22 s",
        "at most 5 s",
        "about 0 s",
        "at least 60 s",
        "",
        "60 to 80 s",
    ]


@pytest.mark.parametrize(
    ("orders", "text"), [([1, 3], ", 1 to 3 in the order of starts"), ([7, 7], "")]
)
def test_the_place_in_the_queue_is_not_the_place_among_the_starts(
    here: Daemon, visitor: Visitor, orders: list[int] | None, text: str
):
    job = here.client.submit(bash(name="is-last", held=True)).id

    def with_orders(route: Route) -> None:
        why = route.fetch().json()
        start = {"earliest_s": 2, "latest_s": 3, "runs": 10, "sentence": "", "coverage": None}
        why |= {"position": 7, "waiting": 7, "details": [["sharing", "not yet"]]}
        route.fulfill(json=why | {"estimate": start | {"order": 1, "orders": orders}})

    visitor.page.route("**/why", with_orders)
    visitor.go(f"/jobs/{job}")
    place = visitor.page.get_by_text("Place", exact=True).locator("+ dd")
    expect(place).to_have_text(f"7 of 7 waiting jobs{text}")
    why = visitor.page.get_by_label("Why", exact=True)
    expect(why.get_by_text("Sharing", exact=True).locator("+ dd")).to_have_text("not yet")
