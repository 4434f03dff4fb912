"""Write the journal of a simulation, completely or not at all."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from treadle.core.errors import InvalidInputError
from treadle.files import writing
from treadle.journal.codec import Opened
from treadle.journal.journal import JournalWriter
from treadle.reports.export import check_writable
from treadle.reports.metrics import Summary
from treadle.sim.experiment import Experiment, policy_text
from treadle.version import __version__


def finish_with_journal(
    experiment: Experiment, path: Path, ended: Callable[[int], None] | None = None
) -> Summary:
    """Run to the end and write the journal to that path; a failed run leaves no file."""
    check_writable(path)
    settings = experiment.settings
    # In a journal `live` says that its jobs were run, not simulated.
    written = replace(settings, policy=policy_text(settings), live=False)
    opened = Opened(__version__, experiment.cluster, asdict(written))
    try:
        with writing(path) as file:
            experiment.simulation.observe(JournalWriter(file, opened))
            return experiment.finish(ended)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from None
