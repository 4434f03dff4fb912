"""What a report says about what policies did not know."""

import pytest

from treadle.cli.study.compare import notes
from treadle.core.cluster import Cluster
from treadle.sim.settings import Settings
from treadle.testing.builders import job
from treadle.traces.workload import Workload


def said(**settings: object) -> list[str]:
    """The notes that runs without these settings do not have."""
    workload, cluster = Workload.of("w", [job("a")]), Cluster.grid(1, 1)
    plain = notes(workload, cluster, Settings())
    chosen = Settings(**settings)  # type: ignore[arg-type]
    return [line for line in notes(workload, cluster, chosen) if line not in plain]


RUN = "jobs that have run"


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({}, []),
        (
            {"belief": "learned", "belief_error": 0.1},
            [
                f"policies know only the speeds and lengths of {RUN} (--belief learned)",
                "measured speeds are off by a log-normal factor of 0.1",
            ],
        ),
        (
            {"belief": "prior"},
            ["policies know no speeds and assume that every job scales linearly (--belief prior)"],
        ),
        (
            {"belief_error": 0.7, "length_error": 2.3},
            [
                "policies mispredict speeds by a log-normal factor of 0.7",
                "policies see job lengths that are off by a log-normal factor of 2.3",
            ],
        ),
    ],
)
def test_a_report_says_what_policies_did_not_know(settings, lines: list[str]) -> None:
    assert said(**settings) == lines
