"""The policy and the wrapper of docs/add-a-policy.md do what that page says they do."""

import re
from pathlib import Path

import pytest
from examples.largest_first import largest_first
from tests.unit.stories import play

from treadle.core.ports import PerformanceModel, Policy
from treadle.policies.base.placement import Placement
from treadle.policies.wrappers.views import starts
from treadle.policies.wrappers.wrapper import Refusing
from treadle.testing.builders import job, policy
from treadle.testing.policy_contract import PolicyContract

PAGE = Path(__file__).parents[2] / "docs" / "add-a-policy.md"


class TestLargestFirst(PolicyContract):
    def make(self, placement: Placement, belief: PerformanceModel) -> Policy:
        return largest_first(placement, belief)


@pytest.fixture
def curfew() -> type[Refusing]:
    """The class as it stands on the page."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, object] = {"Refusing": Refusing, "starts": starts}
    exec(next(block for block in blocks if "class Curfew" in block), names)
    found = names["Curfew"]
    assert isinstance(found, type)
    assert issubclass(found, Refusing)
    return found


def test_nobody_starts_in_the_last_hour_of_a_day(curfew: type[Refusing]) -> None:
    """1. a starts before the hour and runs on. 2. b waits for midnight."""
    jobs = [job("a", at=82_000.0, length_s=3000.0), job("b", at=83_000.0)]
    assert play(curfew(policy("fifo")), jobs) == [
        "82000 start a n0:0",
        "85000 finish a",
        "86400 start b n0:0",
        "86500 finish b",
    ]
