"""A hint for a misspelt word."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean philly?`, or an empty text if no known word is close."""
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
