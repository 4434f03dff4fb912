"""torch.save and torch.load, where several processes run one script.

Only the first rank writes what the script saves, and not while it catches up. The others keep
their own copy of the last few, so that a script that loads its best model at the end finds one.

A script that resumes from a file of its own would begin in the middle, and its epochs could not be
counted: what it saved and what it loaded before it trained are compared.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from treadle.train.auto.support import refuse

if TYPE_CHECKING:
    from treadle.train.auto.script_run import ScriptRun

COPIES = 2
NAMES_MAX = 256  # of files that are remembered


class Files:
    """What the script saved and loaded."""

    def __init__(self, run: "Callable[[], ScriptRun | None]") -> None:
        self._run = run
        self._save, self._load = torch.save, torch.load
        self._saved: dict[str, None] = {}
        self._loaded: set[str] = set()  # before it trained
        self._copies: dict[str, Path] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def install(self) -> None:
        setattr(torch, "save", self.save)  # noqa: B010  (mypy knows their exact signatures)
        setattr(torch, "load", self.load)  # noqa: B010

    @property
    def has_loaded(self) -> bool:
        return bool(self._loaded)

    def resumes_from(self, state: dict[str, Any]) -> str:
        """A file that the run saved and this process began with; empty if there is none."""
        return min(self._loaded & set(state["saved"]), default="")

    def save(self, content: object, file: Any, *args: Any, **options: Any) -> None:  # noqa: ANN401
        if not isinstance(file, str | os.PathLike):
            return self._save(content, file, *args, **options)
        name = os.path.realpath(file)
        if self._writes():
            if len(self._saved) < NAMES_MAX:
                self._saved[name] = None
            return self._save(content, file, *args, **options)
        return self._save(content, self._copy(name), *args, **options)

    def load(self, file: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        if isinstance(file, str | os.PathLike):
            name = os.path.realpath(file)
            if self._run() is None:
                self._loaded.add(name)
            file = self._copies.get(name, file)
        return self._load(file, *args, **options)

    def state_dict(self) -> dict[str, Any]:
        return {"saved": list(self._saved)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if found := self.resumes_from(state):
            refuse(
                f"the script begins with {found}, which it saved itself, and so in the middle; a "
                "newcomer has to begin at the top: do not load it if TREADLE_JOINS is 1"
            )
        self._saved = dict.fromkeys(state["saved"])

    def _writes(self) -> bool:
        run = self._run()
        if run is None:
            first = os.environ.get("RANK", "0") == "0"
            return first and os.environ.get("TREADLE_JOINS") != "1"
        return run.rank == 0 and not run.catching_up

    def _copy(self, name: str) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="treadle-copies-")
        if name not in self._copies:
            if len(self._copies) >= COPIES:
                oldest = next(iter(self._copies))
                self._copies.pop(oldest).unlink(missing_ok=True)
            self._copies[name] = Path(self._folder.name) / str(abs(hash(name)))
        return self._copies[name]
