"""Literal text, with `*` for anything within the line.

Users write patterns and logs are hostile, so there are no regular expressions here: a pattern is
cut at its stars into pieces, and the pieces must occur in a line in their order. Taking each piece
at its first place is enough, because a later place never helps the pieces that follow. One pass
over the line, no backtracking, no blow-up.

A pattern floats: it may match anywhere in the line, so `No space left` is a pattern.
"""

from treadle.core.errors import InvalidInputError
from treadle.core.value import value

PIECES_MAX = 8
LENGTH_MAX = 200


@value
class Pattern:
    pieces: tuple[str, ...]  # None is empty; in the order in which a line must hold them.

    @classmethod
    def of(cls, text: str) -> "Pattern":
        """Raises InvalidInputError with the end of a sentence; its begin names whose text it is."""
        if len(text) > LENGTH_MAX:
            raise InvalidInputError(f"is longer than {LENGTH_MAX} characters")
        pieces = tuple(piece for piece in text.split("*") if piece)
        if not any(piece.strip() for piece in pieces):
            raise InvalidInputError("holds no text to look for")
        if len(pieces) > PIECES_MAX:
            raise InvalidInputError(f"has more than {PIECES_MAX} pieces between its stars")
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
