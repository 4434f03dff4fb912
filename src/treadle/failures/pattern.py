"""Literal text, with `*` for anything within the line.

Users write patterns and logs may be hostile, so there are no regular expressions here. A pattern is
split at its stars, and the pieces must occur in a line in order. Taking the first occurrence of
each piece is enough, because a later one never helps the pieces that follow. One pass over the
line, no backtracking.

A pattern may match anywhere in the line, so `No space left` is a pattern.
"""

from treadle.core.errors import InvalidInputError
from treadle.core.value import value

PIECES_MAX = 8
LENGTH_MAX = 200


@value
class Pattern:
    pieces: tuple[str, ...]  # Not empty; in the order in which a line must contain them.

    @classmethod
    def of(cls, text: str) -> "Pattern":
        if len(text) > LENGTH_MAX:
            raise InvalidInputError(f"pattern {text[:40]!r} is longer than {LENGTH_MAX} characters")
        pieces = tuple(piece for piece in text.split("*") if piece)
        if not any(piece.strip() for piece in pieces):
            raise InvalidInputError(f"pattern {text!r} holds no text to look for")
        if len(pieces) > PIECES_MAX:
            raise InvalidInputError(f"pattern {text!r} has more than {PIECES_MAX} pieces")
        return cls(pieces)

    def matches(self, line: str, start: int = 0) -> bool:
        for piece in self.pieces:
            found = line.find(piece, start)
            if found < 0:
                return False
            start = found + len(piece)
        return True

    def __str__(self) -> str:
        return "*".join(self.pieces)
