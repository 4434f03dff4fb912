"""What a job has in common with others, by its record: all that is learned of it goes there."""

from treadle.control.jobs.records import JobRecord
from treadle.control.learning import Program
from treadle.models.learning.kinds import Likeness


def program_of(record: JobRecord) -> Program:
    return Program(record.owner, record.model, record.command, record.workdir, record.env)


def likeness_of(record: JobRecord) -> Likeness:
    return program_of(record).likeness
