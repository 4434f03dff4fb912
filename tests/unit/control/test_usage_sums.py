"""Sums that took long are given again, but never past a change of an attempt."""

import asyncio
from pathlib import Path

import pytest

from tests.store.made import attempt
from treadle.control.api import usage_sums
from treadle.control.api.usage_sums import UsageSums
from treadle.control.loop import Condition, StoreReads
from treadle.store.rows import Batch, UsageSum
from treadle.store.store import Store


@pytest.mark.parametrize("change", ["written", "deleted", "none"])
def test_a_sum_is_given_again_until_an_attempt_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(usage_sums, "SMALL_S", -1.0)  # Every sum took long.

    async def both(store: Store) -> tuple[list[UsageSum], list[UsageSum]]:
        reads, sums = StoreReads(store, Condition()), UsageSums()
        first = await sums.between(reads, 0.0, None)
        if change == "written":
            store.write(Batch(attempts=[attempt("b", started_at=1.0, ended_at=2.0)]))
        elif change == "deleted":
            store.forget_jobs(["a"])
        second = await sums.between(reads, 0.0, None)
        reads.close()
        return first.sums, second.sums

    with Store.open(f"sqlite:///{tmp_path}/treadle.db") as store:
        store.write(Batch(attempts=[attempt("a", started_at=1.0, ended_at=2.0)]))
        first, second = asyncio.run(both(store))
    assert [row.jobs for row in first] == [1]
    assert [row.jobs for row in second] == {"written": [2], "deleted": [], "none": [1]}[change]
    assert (second is first) == (change == "none")
