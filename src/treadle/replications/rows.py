"""A measured figure and the published one."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. The tolerance is relative; without one the figure is shown, not judged."""

    what: str
    measured: float
    published: float | None
    tolerance: float | None = None
    at_most: bool = False  # the published figure is an upper limit
    at_least: bool = False  # the published figure is a lower limit

    @property
    def difference(self) -> float | None:
        """Measured over published, minus one."""
        return None if not self.published else self.measured / self.published - 1.0

    @property
    def holds(self) -> bool:
        if self.at_most:
            return self.published is not None and self.measured <= self.published
        if self.at_least:
            return self.published is not None and self.measured >= self.published
        if self.tolerance is None or self.difference is None:
            return True
        return abs(self.difference) <= self.tolerance

    def as_dict(self) -> dict[str, object]:
        return {
            "what": self.what,
            "measured": self.measured,
            "published": self.published,
            "difference": self.difference,
            "tolerance": self.tolerance,
            "holds": self.holds,
        }


def text(rows: Sequence[Row]) -> str:
    """An aligned table."""
    width = max(len(row.what) for row in rows)
    lines = [f"{'':{width}}  {'measured':>10}  {'published':>10}  difference"]
    for row in rows:
        published = "–" if row.published is None else f"{row.published:.4g}"
        if row.at_most:
            verdict = f"at most: {'holds' if row.holds else 'EXCEEDED'}"
        elif row.at_least:
            verdict = f"at least: {'holds' if row.holds else 'MISSED'}"
        elif row.difference is None:
            verdict = ""
        else:
            allowed = "" if row.tolerance is None else f" (±{100 * row.tolerance:g} %)"
            verdict = f"{100 * row.difference:+.2f} %{allowed}{'' if row.holds else '  MISSED'}"
        lines.append(
            f"{row.what:{width}}  {row.measured:10.4g}  {published:>10}  {verdict}".rstrip()
        )
    return "\n".join(lines)
