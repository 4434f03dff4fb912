"""Which kind of device each job is served by: two prices at which what is wanted is there.

A job that is given so many devices of a kind brings worth x rate and costs the price of the kind
for each. Each job takes what leaves most. The prices are those at which no more is taken than there
is. So a job goes to slow devices either because they do nearly as well for it, or because others
make more of the fast ones.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_HALVINGS = 20
_ROUNDS = 3
_LEAST = 1e-7  # price, of the highest at which anything is taken
_ALIKE = 1e-3  # of a job's best: offers that differ by less do as well; prices are not exact


class Offer(NamedTuple):
    """So many devices of a kind, and what a job gets done on them."""

    kind: int
    devices: int
    rate: float


class Split(NamedTuple):
    """The kind for each job, and the price of each kind."""

    kinds: list[int]
    prices: tuple[float, ...]


def split(
    offers: Sequence[Sequence[Offer]],
    worths: Sequence[float],
    supplies: Sequence[float],
    homes: Sequence[int] = (),
) -> Split:
    """The kind that each job is to have devices of.

    offers: of each job, at least one. homes: the kind on which each job runs, -1: on none.
    """
    width = max(len(row) for row in offers)
    table = np.array(
        [[*row, *[Offer(row[0].kind, 1, -inf)] * (width - len(row))] for row in offers], dtype=float
    )
    kinds: NDArray[np.intp] = table[:, :, 0].astype(np.intp)
    devices: NDArray[np.float64] = table[:, :, 1]
    values: NDArray[np.float64] = table[:, :, 2] * np.array(worths)[:, None]
    market = _Market(kinds, devices, values, supplies)
    # From one price for all: where kinds do as well for many jobs, single prices would creep.
    prices = market.clearing(list(range(len(supplies))), np.zeros(len(supplies)))
    for _ in range(_ROUNDS):
        for kind in range(len(supplies)):
            prices = market.clearing([kind], prices)
    at_home = kinds == np.array(homes or [-1] * len(offers))[:, None]
    return Split(market.choices(prices, at_home), tuple(prices.tolist()))


class _Market:
    """What is taken at which prices."""

    def __init__(
        self,
        kinds: NDArray[np.intp],
        devices: NDArray[np.float64],
        values: NDArray[np.float64],
        supplies: Sequence[float],
    ) -> None:
        self._kinds = kinds
        self._devices = devices
        self._values = values
        self._supplies = supplies
        self._rows = np.arange(len(kinds))
        self._highest = float((values / devices).max())

    def clearing(self, kinds: Sequence[int], prices: NDArray[np.float64]) -> NDArray[np.float64]:
        """The prices, with the lowest for these kinds at which there is enough of them."""
        supply = sum(self._supplies[kind] for kind in kinds)
        trial = prices.copy()
        trial[kinds] = 0.0
        if self._taken(kinds, trial) <= supply:
            return trial
        low, high = self._highest * _LEAST, self._highest
        for _ in range(_HALVINGS):
            trial[kinds] = middle = (low * high) ** 0.5
            if self._taken(kinds, trial) <= supply:
                high = middle
            else:
                low = middle
        trial[kinds] = high
        return trial

    def choices(self, prices: NDArray[np.float64], at_home: NDArray[np.bool_]) -> list[int]:
        """The kind of each job.

        It is what leaves most. Jobs that are alike want the same at these prices, so of kinds that
        do as well for a job it takes one that has room. A job to which nothing leaves anything
        takes what brings most for its price of what has room: no kind is idle while a job waits.
        If it runs, in company, which has no price, it stays on its kind.
        """
        cost = prices[self._kinds] * self._devices
        left = self._values - cost
        ratio = self._values / np.maximum(cost, self._highest * _LEAST)
        served = left.max(axis=1) > 0.0
        score = np.where(served[:, None], left, ratio)
        stays = ~served & (at_home & (ratio >= 0.0)).any(axis=1)
        score[stays[:, None] & ~at_home] = -inf
        best = score.argmax(axis=1)
        top = score[self._rows, best]
        least = top - _ALIKE * self._values.max(axis=1)
        as_good = score >= np.where(served, least, 0.0)[:, None]
        found: list[int] = self._kinds[self._rows, best].tolist()
        room = list(self._supplies)
        # Those first that are served and have no choice.
        for i in np.lexsort((-ratio.max(axis=1), as_good.sum(axis=1), ~served)).tolist():
            offers = np.flatnonzero(as_good[i]).tolist()
            by = self._values if served[i] else ratio
            offers.sort(key=lambda k: -by[i, k])
            chosen = next(
                (k for k in offers if self._devices[i, k] <= room[self._kinds[i, k]]), best[i]
            )
            found[i] = int(self._kinds[i, chosen])
            room[found[i]] -= float(self._devices[i, chosen])
        return found

    def _taken(self, kinds: Sequence[int], prices: NDArray[np.float64]) -> float:
        left = self._values - prices[self._kinds] * self._devices
        best = left.argmax(axis=1)
        wins = left[self._rows, best] > 0.0
        if len(kinds) < len(prices):
            wins &= np.isin(self._kinds[self._rows, best], kinds)
        return float(self._devices[self._rows, best][wins].sum())
