"""What a job has in common with others, by its record: all that is learned of it goes there."""

import re

from treadle.control.jobs.records import JobRecord
from treadle.control.learning import Program
from treadle.models.learning.commands import is_shell
from treadle.models.learning.kinds import Likeness

_NAMES = "(?:TREADLE_ARRAY_INDEX|SLURM_ARRAY_TASK_ID)"
INDEX = re.compile(rf"\$(?:{{{_NAMES}}}|{_NAMES}\b)")  # of a member of an array, for a shell


def program_of(record: JobRecord) -> Program:
    return Program(record.owner, record.model, record.command, record.workdir, record.env)


def likeness_of(record: JobRecord) -> Likeness:
    return program_of(record).likeness


def given_to(record: JobRecord) -> Likeness:
    """The same of one member of an array: with its index, where a shell puts that in."""
    program = program_of(record)
    if record.member is None or not is_shell(record.command):
        return program.likeness
    words = (INDEX.sub(str(record.member), word) for word in record.command)
    return program._replace(command=tuple(words)).likeness
