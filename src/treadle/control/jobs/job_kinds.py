"""What a job has in common with others, by its record: all that is learned of it goes there."""

import re
from collections.abc import Sequence

from treadle.control.jobs.records import JobRecord
from treadle.control.learning import Program
from treadle.models.learning.commands import Arguments, is_shell, parsed
from treadle.models.learning.kinds import Likeness
from treadle.wire.notation import CARRIED

_NAMES = "(?:TREADLE_ARRAY_INDEX|SLURM_ARRAY_TASK_ID)"
INDEX = re.compile(rf"\$(?:{{{_NAMES}}}|{_NAMES}\b)")  # of a member of an array, for a shell


def program_of(record: JobRecord) -> Program:
    return Program(record.owner, record.model, record.command, record.workdir, record.env)


def likeness_of(record: JobRecord) -> Likeness:
    return program_of(record).likeness


def given_to(record: JobRecord) -> Arguments:
    """What its command is given; in an array with its index, where a shell puts that in."""
    words: Sequence[str] = record.command
    if record.member is not None and is_shell(words):
        words = [INDEX.sub(str(record.member), word) for word in words]
    env = {name: text for name, text in record.env.items() if name not in CARRIED}
    return parsed(words, env).arguments
