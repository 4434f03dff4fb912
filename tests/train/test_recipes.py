"""The recipes of docs/recipes.md: a stop order, a checkpoint, and the same losses after it."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.shared import THOROUGH

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "examples" / "recipes"
# recipe -> ranks, and the library that it is for
KNOWN = {
    "plain_loop.py": (1, "torch"),
    "ddp.py": (2, "torch.nn.parallel"),
    "hugging_face.py": (1, "transformers"),
    "lightning_fit.py": (1, "lightning.pytorch"),
    "accelerate_loop.py": (1, "accelerate"),
}


def test_every_recipe_is_run() -> None:
    assert {path.name for path in RECIPES.glob("*.py")} == set(KNOWN)


def test_recipes_stop_when_asked_and_resume_at_the_same_step(tmp_path: Path) -> None:
    """All in one test: their libraries take seconds to import."""
    here = {
        recipe: (ranks, module)
        for recipe, (ranks, module) in KNOWN.items()
        if find_spec(module.partition(".")[0]) is not None
        and (THOROUGH or module.startswith("torch"))  # The other libraries take long to load.
    }
    modules = [module for _, module in here.values()]
    if "transformers" in modules:
        modules.append("transformers.trainer")
    asked = json.dumps({str(RECIPES / recipe): ranks for recipe, (ranks, _) in here.items()})
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", "tests.train.recipe_runs", str(tmp_path), asked, *modules],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    for path, runs in json.loads(done.stdout.splitlines()[-1]).items():
        recipe = Path(path).name
        _check(recipe, KNOWN[recipe][0], runs, done.stderr)
    if THOROUGH and len(here) < len(KNOWN):
        pytest.skip(f"not installed, so not run: {', '.join(sorted(KNOWN.keys() - here.keys()))}")


def _check(recipe: str, ranks: int, runs: dict[str, Any], errors: str) -> None:
    codes = [runs[name]["codes"] for name in ("whole", "stopped", "resumed")]
    assert codes == [[0] * ranks, [143] * ranks, [0] * ranks], f"{recipe}: {errors}"
    whole = {row["step"]: row["loss"] for row in runs["whole"]["rows"]}
    first = [row["step"] for row in runs["stopped"]["rows"]]
    second = [row["step"] for row in runs["resumed"]["rows"]]
    assert first + second == list(whole), f"{recipe}: each step once"
    assert 9 < len(first) < len(whole), recipe
    for row in runs["stopped"]["rows"] + runs["resumed"]["rows"]:
        expected = pytest.approx(whole[row["step"]], rel=1e-5)
        assert row["loss"] == expected, f"{recipe}, step {row['step']}"
