"""How often a job was overtaken: how many later jobs started while it waited.

Updating every waiting job at every start would take time in proportion to the queue. Instead a
Fenwick tree counts starts by order of arrival, and a waiting job reads it twice: when it begins to
wait, and when it is asked.
"""


class Overtakes:
    """Starts by order of arrival. Places count from 1."""

    def __init__(self) -> None:
        self._sums = [0]  # [place] covers as many places up to it as its lowest bit says
        self._total = 0

    def join(self) -> int:
        """The place of a job that arrives now."""
        place = len(self._sums)
        self._sums.append(self._before(place - 1) - self._before(place - (place & -place)))
        return place

    def start(self, place: int) -> None:
        self._total += 1
        while place < len(self._sums):
            self._sums[place] += 1
            place += place & -place

    def after(self, place: int) -> int:
        """Starts so far of jobs that arrived later."""
        return self._total - self._before(place)

    def _before(self, place: int) -> int:
        """Starts of that place and all before it."""
        if not self._total:
            return 0
        found = 0
        while place:
            found += self._sums[place]
            place &= place - 1
        return found
