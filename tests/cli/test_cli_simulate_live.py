"""The pages on Treadle's CSV and on live simulations: their tables and their example are true."""

import json
import re
from operator import attrgetter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from treadle.cli.main import cli
from treadle.core.job import JobSpec
from treadle.policies.registry import names
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.csv_columns import COLUMNS, STATUS, Column
from treadle.traces.load import load

DOCS = Path(__file__).parents[2] / "docs"
COMMON = ("jobs.csv", "--cluster", "nodes.yaml", "--policy", "fifo")


def row(column: Column) -> str:
    """The column in the page's table."""
    expected = column.kind.expected.replace("|", r"\|")
    return f"| `{column.name}` | {expected} | {default(column)} | {column.about} |"


def default(column: Column) -> str:
    if column.required or column.as_largest:
        return "required" if column.required else "the largest size"
    if column.field in (STATUS, "plans"):
        return "data parallel" if column.field == "plans" else ""
    found = attrgetter(column.field)(JobSpec("-", 1.0))
    return "" if found in (None, ()) else column.kind.write(found)


def test_the_page_has_the_table_of_columns() -> None:
    page = (DOCS / "trace-csv.md").read_text()
    table = page.partition("## Columns\n")[2].partition("\n## ")[0].strip().splitlines()
    assert table[2:] == [row(column) for column in COLUMNS]


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the how-to, in the present folder."""
    page = (DOCS / "simulate-a-case.md").read_text()
    for language, name in (("yaml", "nodes.yaml"), ("csv", "jobs.csv")):
        found = re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)
        assert found is not None
        lines = (line.removeprefix("   ") for line in found[1].splitlines())
        (tmp_path / name).write_text("\n".join(lines).rstrip() + "\n")
    monkeypatch.chdir(tmp_path)


def treadle(*words: str) -> Result:
    return CliRunner().invoke(cli, words, prog_name="treadle")


@pytest.mark.usefixtures("case")
def test_the_commands_of_the_how_to_run() -> None:
    page = (DOCS / "simulate-a-case.md").read_text()
    commands = re.findall(r"(?:^ {7}|`)treadle (\w+ jobs\.csv [^`\n]+)", page, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        result = treadle(*command.split())
        assert result.exit_code == 0, result.output


@pytest.mark.usefixtures("case")
def test_simulate_says_whether_it_was_live() -> None:
    bare, live = (treadle("simulate", *COMMON, *more, "--json") for more in ((), ("--live",)))
    assert [json.loads(one.output)["live"] for one in (bare, live)] == [False, True]


@pytest.mark.usefixtures("case")
def test_only_a_live_simulation_heeds_host_memory() -> None:
    """y does not fit beside z on n0, where a bare policy puts it."""
    beside = [_nodes_held_at_11(Settings(live=live)) for live in (False, True)]
    assert beside[0] == {"z": "n0", "y": "n0"}
    assert beside[1].get("y") != "n0"


@pytest.mark.parametrize("policy", names())
@pytest.mark.usefixtures("case")
def test_a_job_that_fits_another_node_starts_there_at_once(policy: str) -> None:
    assert _nodes_held_at_11(Settings(policy=policy, live=True)) == {"z": "n0", "y": "n1"}


def _nodes_held_at_11(settings: Settings) -> dict[str, str]:
    """The first node of each job that runs a second after y came."""
    simulation = prepare(load("jobs.csv"), cluster("nodes.yaml"), settings).simulation
    simulation.run(until=11.0)
    held = {job.id: job.allocation for job in simulation.scheduler.jobs.values()}
    return {job: found.nodes()[0] for job, found in held.items() if found is not None}
