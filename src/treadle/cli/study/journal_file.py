"""Write the journal of a simulation, completely or not at all."""

from dataclasses import asdict
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.files import writing
from treadle.journal.codec import Opened
from treadle.journal.journal import JournalWriter
from treadle.reports.export import check_writable
from treadle.reports.metrics import Summary
from treadle.sim.experiment import Experiment
from treadle.version import __version__


def finish_with_journal(experiment: Experiment, path: Path) -> Summary:
    """Run to the end and write the journal to that path; a failed run leaves no file."""
    check_writable(path)
    opened = Opened(__version__, experiment.cluster, asdict(experiment.settings))
    try:
        with writing(path) as file:
            experiment.simulation.observe(JournalWriter(file, opened))
            return experiment.finish()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from None
