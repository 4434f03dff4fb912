"""How the state of a run comes into a new group, under a new plan, or out of a checkpoint."""

import sys
from pathlib import Path
from typing import Any

import torch

from treadle.core.plan import Plan
from treadle.train import carry
from treadle.train.elastic import Move
from treadle.train.group import BrokenGroupError, Group
from treadle.train.planned import Planned
from treadle.train.random_numbers import seed_apart
from treadle.train.saving import Saving
from treadle.train.sharded_state import UnreadableError
from treadle.train.state import State, receive, send


class StateMoves:
    """The state of one rank, and the folder it came from."""

    def __init__(self, group: Group, saving: Saving, device: torch.device) -> None:
        self._group, self._saving, self._device = group, saving, device
        self._has_trained = False  # it has random numbers of its own
        self._carried: Path | None = None  # removed when all have taken the state from there
        self._carried_at = 0
        self._unreadable: list[Path] = []  # parts of checkpoints that could not be loaded

    def carry(self, version: int, state: State, planned: Planned) -> str:
        """Save the state for members that have or will have parts of it."""
        return carry.write(str(version), planned, state.rest(self._device), self._group)

    def take(self, move: Move, state: State, planned: Planned, seed: int) -> None:
        """Get or give the state in the new group, and take on its plan."""
        folder = move.carried or self._spread(move, state, planned, seed)
        while folder:
            try:
                self._become(move.plan, Path(folder), planned)
            except UnreadableError as error:  # on all ranks, so all go on with an older one
                self._unreadable.append(Path(folder))
                folder = "" if move.carried else self._spread(move, state, planned, seed)
                if not folder:
                    raise
                sys.stderr.write(f"{error}; {Path(folder).name} is taken instead\n")
            else:
                self._take_rest(carry.read_document(Path(folder)), state, seed)
                self._remember(Path(folder), state.position.applied)
                break
        else:
            planned.adapt(move.plan)
        if not move.plan.replicated:  # It has groups within the group.
            self._group.cover_parts()
        self._has_trained = True

    def _become(self, plan: Plan, folder: Path, planned: Planned) -> None:
        try:
            with self._group.forming():  # of groups within the group
                planned.become(plan, folder)
        except RuntimeError as error:
            if not self._group.is_failure(error):
                raise
            raise BrokenGroupError(str(error)) from None

    def _remember(self, folder: Path, applied: int) -> None:
        """All are in a newer group now: none reads from a folder of before."""
        if self._carried != folder:
            self.forget_carried()
        self._carried, self._carried_at = folder, applied

    def forget_carried(self, applied: int | None = None) -> None:
        """Remove the folder, once a step was applied by all: then all have the state."""
        if self._carried is None or (applied is not None and applied <= self._carried_at):
            return
        if self._group.rank == 0:
            carry.remove(self._carried)
        self._carried = None

    def _spread(self, move: Move, state: State, planned: Planned, seed: int) -> str:
        """The state of one rank to all that need it; a folder, if they have to take it there."""
        mine = self._group.rank == move.source
        if mine and move.fresh:
            carry.sweep()
        folder = self._resume(state) if mine and move.fresh else ""
        if mine and not folder and not move.plan.replicated and not self._unreadable:
            name = f"start-{state.position.applied}"
            folder = carry.write_alone(name, planned, state.rest(self._device))
        if not move.spread:
            return folder
        if mine:
            whole = not folder and not self._unreadable
            send(state.read(self._device) if whole else {"folder": folder}, self._group)
            return folder
        needs = move.receives or not move.plan.replicated
        document = receive(self._group, move.source, keep=needs)
        if needs and "folder" not in document:
            state.write(document, self._device, exact=self._group.rank == 0)
            self._seed_apart(state, seed)
        return str(document.get("folder", ""))

    def _resume(self, state: State) -> str:
        """Take the newest checkpoint, if there is one; its folder, if it is in parts."""
        checkpoints = self._saving.checkpoints
        saved = checkpoints.load(self._unreadable) if checkpoints is not None else None
        if checkpoints is None or saved is None:
            return ""
        parts = checkpoints.parts_of(saved)
        if parts is None and not self._unreadable:  # A model that was split cannot take it.
            state.write(saved, self._device, exact=True)
        return "" if parts is None else str(parts)

    def _take_rest(self, document: dict[str, Any], state: State, seed: int) -> None:
        """The state beside the model; random numbers only if this rank has none of its own."""
        new = not self._has_trained
        state.write_rest(document, self._device, exact=new and self._group.rank == 0)
        if new:
            self._seed_apart(state, seed)

    def _seed_apart(self, state: State, seed: int) -> None:
        if self._group.rank != 0:
            seed_apart(seed, state.position.applied, self._group.rank)
