"""What the jobs of a sweep are given: by it they are told apart in one table."""

import re
from collections.abc import Sequence
from dataclasses import replace

from treadle.control.jobs import JobRecord, program_of
from treadle.models.learning.commands import in_words
from treadle.models.learning.kinds import FOLDER
from treadle.wire.jobs import JobView

# Variables that a shell replaces by the index of a member of an array.
_NAMES = "(?:TREADLE_ARRAY_INDEX|SLURM_ARRAY_TASK_ID)"
_INDEX = re.compile(rf"\$(?:{{{_NAMES}}}|{_NAMES}\b)")


def with_arguments(views: Sequence[JobView], records: Sequence[JobRecord]) -> list[JobView]:
    """The views of these records, each with what its command is given."""
    return [
        replace(view, arguments=_given(record)) for view, record in zip(views, records, strict=True)
    ]


def _given(record: JobRecord) -> dict[str, str]:
    """By the name of an argument as people read it; a variable begins with $."""
    program = program_of(record)
    if record.member is not None:
        words = (_INDEX.sub(str(record.member), word) for word in program.command)
        program = program._replace(command=tuple(words))
    given = program.likeness.arguments
    return {in_words(name): value for name, value in given if name != FOLDER}
