"""Numbers that options take."""

from math import isfinite, isnan
from typing import Any

import click


class Number(click.FloatRange):
    """A finite number in a range; comparisons alone would let NaN pass, and often infinity."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            expected = "a number" if isnan(number) else "a finite number"
            self.fail(f"{value!r} is not {expected}", param, ctx)
        return number

    def _describe_range(self) -> str:
        """For the help page; click writes x<=None of a number without limits."""
        return "" if self.min is None and self.max is None else super()._describe_range()
