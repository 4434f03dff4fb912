"""Forecasts are made again when a share of a kind's runs is new, and asking changes nothing."""

from random import Random

import msgspec

from treadle.models.learning import kept_experts
from treadle.models.learning.kind_history import History
from treadle.models.learning.kinds import by_command
from treadle.models.learning.knowledge import Knowledge
from treadle.models.learning.outcome import Outcome

KINDS = by_command("ann", "", ("train", "--seed", "1"), folder="/home/ann")
OTHER = by_command("bob", "", ("sweep",), folder="/home/bob")


def _learn(knowledge: Knowledge, seconds: float, *, whole: bool = True) -> list[str]:
    return knowledge.observe(KINDS, Outcome(1, seconds, whole=whole, cut_off=not whole))


def _known(knowledge: Knowledge) -> list[bytes]:
    return [msgspec.json.encode(knowledge.history(kind)) for kind in (*KINDS.kinds, *OTHER.kinds)]


def test_of_many_runs_a_few_more_change_nothing_yet() -> None:
    knowledge = Knowledge()
    for _ in range(64):
        _learn(knowledge, 10.0)
    while not _learn(knowledge, 10.0):
        pass
    before = knowledge.expect(KINDS, 1).length
    share = round(kept_experts.GROWN * 64)
    grown = [bool(_learn(knowledge, 1000.0)) for _ in range(share + 1)]
    assert grown == [False] * share + [True]
    assert knowledge.expect(KINDS, 1).length.mean() > 2 * before.mean()


def test_what_is_learned_does_not_depend_on_who_asks_when() -> None:
    draw = Random(5)
    silent, asked = Knowledge(), Knowledge()
    stored: dict[str, History] = {}
    for number in range(80):
        kinds = KINDS if draw.random() < 0.8 else OTHER
        seconds, size = draw.lognormvariate(3.0, 1.0), draw.choice((1, 1, 2))
        whole, begins = draw.random() < 0.7, draw.random() < 0.3
        outcome = Outcome(size, seconds, whole=whole, cut_off=not whole)
        if number == 50:  # A new controller reads what was stored; a replay has it in memory.
            silent.forget_all()
            asked = Knowledge(stored.items())
            asked.forget_all()
        for knowledge in (silent, asked):
            if begins:
                knowledge.begin(str(number), kinds, size, now=float(number))
            knowledge.observe(kinds, outcome, name=str(number))
        stored |= msgspec.json.decode(
            msgspec.json.encode(dict(asked.changes())), type=dict[str, History]
        )
        if draw.random() < 0.5:
            asked.expect(draw.choice((KINDS, OTHER)), draw.choice((1, 2, 4)))
    assert _known(silent) == _known(asked)
