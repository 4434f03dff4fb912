"""Checkpoints at a URL, through fsspec: on a file system, and in memory in place of a cloud."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
import torch

from treadle import train
from treadle.core.errors import InvalidInputError
from treadle.train.checkpoint import folder, own_checkpoints
from treadle.train.url_checkpoints import UrlCheckpoints


@pytest.fixture(params=["file://{}/run", "memory://run/deep"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield request.param.format(tmp_path)
    memory = fsspec.filesystem("memory")
    memory.store.clear()


def names(url: str) -> list[str]:
    files, root = fsspec.core.url_to_fs(url)
    return sorted(path.rpartition("/")[2] for path in files.ls(root, detail=False))


def test_the_newest_comes_back_and_only_the_last_few_are_kept(url: str) -> None:
    checkpoints = UrlCheckpoints(url)
    assert checkpoints.load() is None
    for step in range(4):
        checkpoints.save(step, {"step": step, "weight": torch.full((3,), float(step))})
    found = UrlCheckpoints(url).load()
    assert (found["step"], found["weight"].tolist()) == (3, [3.0, 3.0, 3.0])
    assert names(url) == ["checkpoint-000000000002", "checkpoint-000000000003"]


def test_one_that_was_cut_off_is_passed_over(url: str, capfd) -> None:
    checkpoints = UrlCheckpoints(url)
    checkpoints.save(1, {"step": 1})
    checkpoints.save(2, {"step": 2})
    with fsspec.open(f"{url}/checkpoint-000000000002", "wb") as file:
        file.write(b"half of it")
    assert checkpoints.load() == {"step": 1}
    assert "checkpoint-000000000002 is passed over: it is truncated" in capfd.readouterr().err


def test_a_state_in_parts_comes_back_and_goes_with_its_file(url: str, tmp_path: Path) -> None:
    checkpoints = UrlCheckpoints(url)
    for step in range(4):
        parts = tmp_path / "parts"
        parts.mkdir()
        (parts / "__0_0.distcp").write_text(f"{step}")
        checkpoints.save_parts(step, parts, {"step": step})
        assert not parts.exists()
    again = UrlCheckpoints(url)
    found = again.load()
    place = again.parts_of(found)
    assert place is not None
    assert (place / "__0_0.distcp").read_text() == "3"
    kept = ("000000000002", "000000000003")
    assert names(url) == [f"{kind}-{step}" for kind in ("checkpoint", "parts") for step in kept]
    with fsspec.open(f"{url}/parts-000000000003/__0_0.distcp", "wb") as file:
        file.write(b"4")
    assert UrlCheckpoints(url).load()["step"] == 2


def test_a_script_keeps_its_checkpoints_at_the_url(url: str, monkeypatch) -> None:
    monkeypatch.setenv("TREADLE_CHECKPOINT_DIR", url)
    assert train.resumed() is None
    for step in (1, 2):
        with train.checkpoint() as c:
            c["step"] = step
    assert train.resumed() == {"step": 2}
    assert isinstance(own_checkpoints(), UrlCheckpoints)


def test_what_cannot_write_there_says_so_at_once(monkeypatch) -> None:
    """1. There is no such kind of URL. 2. A library writes to folders alone. 3. No fsspec."""
    monkeypatch.setenv("TREADLE_CHECKPOINT_DIR", "nowhere://bucket/run")
    with pytest.raises(InvalidInputError, match="nowhere://bucket/run, and this environment"):
        own_checkpoints()
    with pytest.raises(InvalidInputError, match="in a folder"):
        folder()
    code = "import sys; sys.modules['fsspec.core'] = None\nfrom treadle import train\n"
    code += "from treadle.core.errors import InvalidInputError\n"
    code += "try: train.resumed()\nexcept InvalidInputError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "install fsspec" in done.stdout
    assert done.stdout.count("\n") == 1


def test_a_store_that_fails_costs_the_checkpoint(url: str, monkeypatch) -> None:
    """Whatever class its errors have; the one before is still there."""
    checkpoints = UrlCheckpoints(url)
    checkpoints.save(1, {"step": 1})

    def fails(*_words: object, **_more: object) -> None:
        raise RuntimeError("no credentials")

    monkeypatch.setattr(checkpoints._files, "open", fails)
    with pytest.raises(OSError, match="RuntimeError: no credentials"):
        checkpoints.save(2, {"step": 2})
    monkeypatch.undo()
    assert checkpoints.load() == {"step": 1}
