"""Facts as agents send them: each comes back as what it was."""

import msgspec

from treadle.core.events import RankReplaced, TrainingEnded
from treadle.engines.agent.messages import Named, fact_of, named


def test_what_a_node_says_of_a_job_that_runs_reaches_the_controller() -> None:
    for fact in (TrainingEnded("j", 3), RankReplaced("j", 3, 1, 4, 137)):
        sent = msgspec.json.encode(named(fact))
        assert fact_of(msgspec.json.decode(sent, type=Named)) == fact
