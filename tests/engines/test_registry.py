"""Engines of third parties: what is wrong with one is a sentence at start-up."""

from pathlib import Path

import pytest

from treadle.core.errors import InvalidInputError
from treadle.engines.registry import EngineContext, engine_factory
from treadle.testing.clocks import ManualClock
from treadle.testing.engine_bench import Recorder

BROKEN = """
def raises(context):
    raise KeyError("no cluster")

def nothing(context):
    return None

def refuses(context):
    from treadle.core.errors import InvalidInputError
    raise InvalidInputError("the cluster is unknown; name one with --gpus")
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_engines.py").write_text(BROKEN)
    folder = tmp_path / "broken_engines-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-engines\nVersion: 1\n")
    names = ("raises", "nothing", "refuses", "absent")
    points = "".join(f"{name} = broken_engines:{name}\n" for name in names)
    (folder / "entry_points.txt").write_text(f"[treadle.engines]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("raises", "engine 'raises' of broken_engines:raises cannot be made: 'no cluster'"),
        ("nothing", "engine 'nothing' of broken_engines:nothing gave NoneType; expected an engine"),
        ("refuses", "the cluster is unknown; name one with --gpus"),
        ("absent", "engine 'absent' cannot be loaded from broken_engines:absent:"),
    ],
)
def test_a_broken_engine_is_one_sentence(name: str, sentence: str, tmp_path: Path) -> None:
    context = EngineContext(controls=Recorder({}), clock=ManualClock(), root=tmp_path)
    with pytest.raises(InvalidInputError) as refused:
        engine_factory(name)(context)
    assert str(refused.value).startswith(sentence)
