"""Facts as agents send them: each comes back as what it was."""

from treadle.core.events import RankReplaced, TrainingEnded
from treadle.core.machine import NodeView
from treadle.engines.agent.messages import FactsGiven, Refused
from treadle.engines.agent.wire import answer, opened


def test_what_a_node_says_of_a_job_that_runs_reaches_the_controller() -> None:
    facts = (
        TrainingEnded("j", 3),
        RankReplaced("j", 3, 1, 4, 137),
        Refused("j", 3, 1, ("size",), "no room"),
    )
    view = NodeView(name="n", device_type="cpu", cores=1, memory_gib=1.0, devices=())
    given = FactsGiven(facts=facts, upto=3, view=view, measurements=(), now=0.0)
    assert opened(answer(given), FactsGiven) == given
