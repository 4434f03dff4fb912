"""Writing a simulated run's journal: complete, or not at all."""

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
    """Run to the end and leave the journal at that path; a failed run leaves nothing."""
    check_writable(path)
    opened = Opened(__version__, experiment.cluster, asdict(experiment.settings))
    try:
        with writing(path) as file:
            experiment.simulation.observe(JournalWriter(file, opened))
            return experiment.finish()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from None
