"""Cached outcomes, and the digest of the source on which they depend."""

from pathlib import Path

import pytest

from tests.unit.league.test_standings import FIGURES
from treadle.league.competition import modules_of
from treadle.league.processes import Outcome
from treadle.league.result_cache import ResultCache, cell_key
from treadle.league.source_digest import source_digest
from treadle.sim.settings import Settings


def test_an_outcome_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "cache")
    assert cache.find("ab1", 30.0) is None
    cache.keep("ab1", Outcome(FIGURES))
    assert cache.find("ab1", 30.0) == Outcome(FIGURES)
    assert cache.find("ab1", 0.5) == Outcome(cut_off_s=0.5)


@pytest.mark.parametrize("lost", [Outcome(error="it broke"), Outcome(cut_off_s=30.0)])
def test_a_loss_is_tried_again(tmp_path: Path, lost: Outcome) -> None:
    cache = ResultCache(tmp_path)
    cache.keep("ef1", lost)
    assert cache.find("ef1", 30.0) is None


@pytest.mark.parametrize("content", ["{", '{"jobs": "x", "resampled_s": [1]}'])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    cache = ResultCache(tmp_path)
    cache.keep("0a1", Outcome(FIGURES))
    (tmp_path / "0a" / "0a1.json").write_text(content)
    assert cache.find("0a1", 30.0) is None


def test_every_part_of_a_cell_is_part_of_its_name() -> None:
    parts = ("jobs", Settings(), "", "source")
    others = [
        ("other", *parts[1:]),
        (parts[0], Settings(seed=1), *parts[2:]),
        (*parts[:2], "costs", parts[3]),
        (*parts[:3], "newer"),
    ]
    keys = {cell_key(*each) for each in [parts, *others]}
    assert len(keys) == 1 + len(others)


def test_a_digest_follows_imports_and_changes_with_a_file(tmp_path: Path) -> None:
    first, second = tmp_path / "one.py", tmp_path / "two.py"
    first.write_text("def f() -> None:\n    from treadle.core.plan import Plan\n")
    second.write_text("def f() -> None:\n    pass\n")
    plain = source_digest("treadle.league.cell")
    assert source_digest("treadle.league.cell") == plain
    assert len({plain, *(source_digest(str(path)) for path in (first, second))}) == 3
    # A policy is imported by name, so it is no part of another one's source.
    policies = [f"treadle.policies.simple.{name}" for name in ("orders", "themis")]
    assert len({plain, *(source_digest("treadle.league.cell", one) for one in policies)}) == 3


def test_what_is_around_a_policy_live_is_part_of_its_source() -> None:
    around = modules_of(Settings(policy="afs?packed=on", live=True), {})
    assert around == ["treadle.policies.afs.afs", "treadle.policies.live.decide"]
    assert modules_of(Settings(policy="mine"), {"mine": "mine.py"}) == ["mine.py"]
