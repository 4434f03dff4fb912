"""Workload lists that are refused in one sentence."""

import pytest

from treadle.core.errors import InvalidInputError
from treadle.league.workload_list import parsed

RIGHT = 'name = "w"\ntrace = "generate:poisson"\ncluster = "1x4"\nwhy = "x"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workload = [3]\n", "expected a table"),
        (f"[[workload]]\n{RIGHT}seed = -5\n", "seed -5; expected 0 or more"),
    ],
)
def test_what_is_no_workload_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        parsed(text, "list.toml")
