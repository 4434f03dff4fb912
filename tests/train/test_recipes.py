"""The recipes of docs/recipes.md: a stop order, a checkpoint, and the same losses after it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "examples" / "recipes"
# recipe -> ranks, and what it imports
KNOWN = {
    "plain_loop.py": (1, ("torch", "torch._dynamo", "treadle.train.stop")),
    "ddp.py": (2, ("torch", "torch._dynamo", "torch.nn.parallel")),
    "hugging_face.py": (1, ("transformers", "transformers.trainer", "torch._dynamo")),
    "lightning_fit.py": (1, ("lightning.pytorch", "torch._dynamo")),
    "accelerate_loop.py": (1, ("accelerate", "torch._dynamo")),
}


def test_every_recipe_is_run() -> None:
    assert {path.name for path in RECIPES.glob("*.py")} == set(KNOWN)


@pytest.mark.parametrize("recipe", KNOWN)
def test_a_recipe_stops_when_asked_and_resumes_at_the_same_step(
    recipe: str, tmp_path: Path
) -> None:
    ranks, modules = KNOWN[recipe]
    pytest.importorskip(modules[0].partition(".")[0])
    words = [str(RECIPES / recipe), str(ranks), str(tmp_path), *modules]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", "tests.train.recipe_runs", *words],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    runs = json.loads(done.stdout.splitlines()[-1])
    codes = [runs[name]["codes"] for name in ("whole", "stopped", "resumed")]
    assert codes == [[0] * ranks, [143] * ranks, [0] * ranks], done.stderr
    whole = {row["step"]: row["loss"] for row in runs["whole"]["rows"]}
    first = [row["step"] for row in runs["stopped"]["rows"]]
    second = [row["step"] for row in runs["resumed"]["rows"]]
    assert first + second == list(whole), "each step once"
    assert 9 < len(first) < len(whole)
    for row in runs["stopped"]["rows"] + runs["resumed"]["rows"]:
        assert row["loss"] == pytest.approx(whole[row["step"]], rel=1e-5), row["step"]
