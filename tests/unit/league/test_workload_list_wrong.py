"""Workload lists that are refused in one sentence."""

import pytest

from treadle.core.errors import InvalidInputError
from treadle.league.workload_list import parsed, standard

RIGHT = 'name = "w"\ntrace = "generate:poisson"\ncluster = "1x4"\nwhy = "x"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workload = [3]\n", "expected a table"),
        (f"[[workload]]\n{RIGHT}seed = -5\n", "seed -5; expected 0 or more"),
        (f"[[workload]]\n{RIGHT}live = 1\n", "live 1; expected true or false"),
        (f"[[workload]]\n{RIGHT}elastic = true\n", "elastic True; expected a number"),
    ],
)
def test_what_is_no_workload_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        parsed(text, "list.toml")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ('effects = "nodes=2"', "workload w: the effect nodes must be a factor up to 1, not 2"),
        ('placement = "x"', "workload w: there is no placement 'x'"),
        ("sharing_error = 2.0", "workload w: sharing error 2 is invalid"),
        ("length_error = -1.0", "workload w: length error must be 0 or more, not -1"),
        ("retries = -1", "workload w: retries must be 0 or more, not -1"),
        ("job_failures = -3.0", "workload w: job failures must be 0 or more, not -3"),
        ("node_mtbf_s = 0", "workload w: node_mtbf_s must be above 0 seconds, not 0"),
    ],
)
def test_an_option_that_no_run_could_have_is_refused_before_any_run(option: str, said: str) -> None:
    (one,) = parsed(f"[[workload]]\n{RIGHT}{option}\n", "list.toml")
    with pytest.raises(InvalidInputError, match=said):
        one.check()


def test_the_standard_workloads_pass_their_check() -> None:
    for one in standard():
        one.check()
