"""Everything that can be killed is killed at random, under load.

The run of 200 kills is `python -m tests.control.kills 200 1`.
"""

from tests.control.kills import SLOTS, Run, begun, struck
from tests.shared import THOROUGH
from treadle.wire.job_orders import Verb

KILLS, SEED = (40 if THOROUGH else 10), 7


def test_random_kills_lose_nothing_run_nothing_twice_and_leave_nothing_behind() -> None:
    run = begun(SEED, Run, *SLOTS)
    wrong = struck(run, KILLS)
    assert not wrong, "\n".join(wrong)
    assert set(run.kills) == {"daemon", "fork server", "supervisor", "rank"}
    assert len(run.submitted) >= KILLS / 2
    assert min(run.pauses[verb] for verb in (Verb.PAUSE, Verb.RESUME)) >= KILLS / 2
