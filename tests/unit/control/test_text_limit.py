"""How much text a job may have: in bytes as they are kept and sent, not in characters."""

import pytest

from treadle.control.jobs.submission import TEXT_MAX, checked
from treadle.core.errors import InvalidInputError
from treadle.wire.jobs import JobRequest


@pytest.mark.parametrize(
    ("letter", "taken"), [("x", 1), ("\x01", 6), ('"', 2), ("\u00e9", 2), ("\U0001f600", 4)]
)
def test_what_takes_more_bytes_than_it_has_characters_counts_as_many(letter, taken) -> None:
    most = (TEXT_MAX - len("true")) // taken
    checked(JobRequest(command=("true",), env={"A": letter * most}))
    with pytest.raises(InvalidInputError, match="command and environment take"):
        checked(JobRequest(command=("true",), env={"A": letter * (most + 1)}))
