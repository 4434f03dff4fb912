"""A member that is lost while a group is formed: the others give it up at once."""

from tests.train.checks import check_steps
from tests.train.harness import Scenario, run
from tests.train.scripts import SAMPLES
from treadle.train.group import JOIN_S_MAX


def test_a_member_that_is_killed_while_a_group_forms_is_not_waited_for() -> None:
    """1. a, b and c are to form a group. 2. c is killed as it begins. 3. a and b go on."""
    options = {"kind": "cnn", "dies_forming": "c", "timeout_s": 60.0, "epochs": 1}
    result = run(Scenario("loop", ("a", "b", "c"), [], options))
    assert result.ended["finished"], result.errors
    assert [len(each["group"]) for each in result.changes] == [2]
    assert result.took_s < JOIN_S_MAX / 2, result.facts
    check_steps(result, SAMPLES, 8)
