"""The random numbers of a rank: to note them, to go on with them, and to make them its own."""

import random
import sys
from typing import Any

import torch


def random_state(device: torch.device) -> dict[str, Any]:
    """Of Python, torch, numpy if it was imported, and the device."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if (numpy := sys.modules.get("numpy")) is not None:
        state["numpy"] = numpy.random.get_state(legacy=False)
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Go on with numbers that `random_state` has noted."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state and (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.set_state(state["numpy"])
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"].cpu(), device)


def seed_apart(seed: int, applied: int, rank: int) -> None:
    """Random numbers of a rank's own: ranks must not drop the same units."""
    number = (seed * 1_000_003 + applied * 8_191 + rank) % 2**31
    torch.manual_seed(number)
    random.seed(number)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(number)
