"""The contract of engines finds engines that break it."""

from typing import ClassVar

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


class ExcusedBench(BareBench):
    cannot: ClassVar = {"attempts": "it does not number attempts", "reports": "it has none"}


class BareContract(EngineContract):
    def bench(self) -> EngineBench:
        return BareBench()


class ExcusedContract(EngineContract):
    def bench(self) -> EngineBench:
        return ExcusedBench()


def test_a_bare_end_breaks_rule_1():
    with pytest.raises(AssertionError, match=r"expected an AttemptEnded \(rule 1\), found JobFin"):
        BareContract().test_1_a_job_that_is_left_alone_finishes()


def test_a_bare_end_is_excused_where_the_bench_says_why():
    ExcusedContract().test_1_a_job_that_is_left_alone_finishes()
