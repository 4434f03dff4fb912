"""Which kinds a job belongs to, by its record: what is learned of it is learned of these."""

from treadle.control.jobs.records import JobRecord
from treadle.control.learning import Program, numbers_of
from treadle.models.learning.kinds import Kind


def program_of(record: JobRecord) -> Program:
    return Program(record.owner, record.model, record.command, record.workdir, record.env)


def kinds_of(record: JobRecord) -> tuple[Kind, ...]:
    """The closest first."""
    return program_of(record).keys


def numbers_in(record: JobRecord) -> tuple[float, ...]:
    """The numbers of its command and of the variables its user gave."""
    return numbers_of(record.command, record.env)
