"""Writing a simulated run's journal: complete, or not at all."""

import contextlib
from dataclasses import asdict
from pathlib import Path

from weft.core.errors import InvalidInputError
from weft.journal.codec import Opened
from weft.journal.journal import JournalWriter
from weft.reports.export import check_writable
from weft.reports.metrics import Summary
from weft.sim.experiment import Experiment
from weft.version import __version__


def finish_with_journal(experiment: Experiment, path: Path) -> Summary:
    """Run to the end and leave the journal at that path; a failed run leaves nothing."""
    check_writable(path)
    partial = path.with_name(f".{path.name}.partial")
    opened = Opened(__version__, experiment.cluster, asdict(experiment.settings))
    try:
        with partial.open("wb") as file:
            experiment.simulation.observe(JournalWriter(file, opened))
            summary = experiment.finish()
        partial.replace(path)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    return summary
