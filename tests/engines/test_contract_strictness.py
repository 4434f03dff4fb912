"""The contract of engines finds engines that break it."""

import pytest
from tests.engines.test_memory import COMMANDS, MemoryBench

from treadle.core.events import AttemptEnded, Event
from treadle.testing.engine_bench import EngineBench, Recorder
from treadle.testing.engine_contract import EngineContract


class BareRecorder(Recorder):
    """Hears the bare meaning of each end, as from an engine that reports no AttemptEnded."""

    def tell(self, *facts: Event) -> None:
        bare = [fact.meaning if isinstance(fact, AttemptEnded) else fact for fact in facts]
        super().tell(*(fact for fact in bare if fact is not None))


class BareBench(MemoryBench):
    def make(self):
        self.controls = BareRecorder(COMMANDS)
        return super().make()


class BareContract(EngineContract):
    def bench(self) -> EngineBench:
        return BareBench()


def test_a_bare_end_breaks_rule_1():
    with pytest.raises(AssertionError, match=r"expected an AttemptEnded \(rule 1\), found JobFin"):
        BareContract().test_1_a_job_that_is_left_alone_finishes()
