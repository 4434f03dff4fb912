"""What is wrong with the options is said before an engine touches its cluster."""

from pathlib import Path

import pytest

from treadle.control.api.assembly import LiveSettings, Wanted
from treadle.control.api.service import LiveService
from treadle.core.errors import InvalidInputError
from treadle.core.ports import Engine
from treadle.engines.registry import EngineContext
from treadle.store.store import Store


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted(policy="wave-l"), "wave-l"),
        (Wanted(policy="fifo?sharp=1"), "sharp"),
        (Wanted(placement="firstfit"), "firstfit"),
    ],
)
def test_no_engine_is_made_for_a_policy_that_does_not_exist(
    tmp_path: Path, wanted: Wanted, said: str
) -> None:
    def make(_: EngineContext) -> Engine:
        raise AssertionError

    store = Store.open(f"sqlite:///{tmp_path / 'treadle.db'}")
    try:
        with pytest.raises(InvalidInputError, match=said):
            LiveService(store, LiveSettings(root=tmp_path / "state", engine=make, wanted=wanted))
    finally:
        store.close()
