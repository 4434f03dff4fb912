"""The league's workloads: the standard list, and what a user's file may say."""

from pathlib import Path

import pytest

from treadle.core.errors import InvalidInputError
from treadle.league.workload_list import LeagueWorkload, chosen, from_file, joined, parsed, standard

ROOT = Path(__file__).parents[3]
TINY = """
[[workload]]
name = "tiny"
trace = "generate:poisson?jobs=9&seed={seed}"
cluster = "1x4"
why = "small"
"""


@pytest.mark.parametrize("one", standard(), ids=lambda one: one.name)
def test_a_standard_workload_has_settings_and_says_why(one: LeagueWorkload) -> None:
    settings = one.settings("fifo", 3)
    assert settings.sharing == "tokens"
    assert float(settings.restart_cost) >= 30
    assert settings.faults.seed == 3
    assert one.why
    if one.drawn:
        workload, cluster = one.read("nowhere", one.seed)
        assert 100 <= len(workload.jobs) <= 400
        assert max(job.asked for job in workload.jobs) <= cluster.device_count
    else:
        assert one.missing("nowhere").startswith("nowhere/")


def test_a_generated_workload_has_several_seeds_and_a_file_has_one() -> None:
    (tiny,) = parsed(TINY, "here")
    assert tiny.seeds(3) == [0, 1, 2]
    assert tiny.source("x", 2).endswith("seed=2")
    file = LeagueWorkload("f", "{traces}/f.csv", "1x4", "small")
    assert file.seeds(3) == [0]
    assert file.source("folder", 0) == "folder/f.csv"


def test_options_are_shown_as_simulate_takes_them() -> None:
    (tiny,) = parsed(TINY + "elastic = 0.05\nnode_mtbf_s = 7200\n", "here")
    assert tiny.command() == (
        "--restart-cost 30 --effects nodes=0.85,racks=0.76 --placement consolidate "
        "--sharing tokens --elastic 0.05 --node-mtbf 2"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload = [", "here is not TOML"),
        ("", "here must have one [[workload]] table for each workload"),
        ("title = 'x'\n" + TINY, "found title"),
        (TINY + "elastik = 0.1\n", "has no option 'elastik'; did you mean elastic?"),
        ("workload = [3]\n", "expected a table"),
        (TINY + "elastic = 'much'\n", "workload tiny: elastic is 'much'"),
        (TINY + "elastic = true\n", "found true or false"),
        (TINY + "live = 1\n", "Expected true or false"),
        (TINY + "every = 0\n", "every"),
        (TINY + "seed = -5\n", "seed"),
        (TINY + "oversize = 'drop'\n", "drop"),
        (TINY.replace('why = "small"', ""), "missing field why"),
    ],
)
def test_a_wrong_file_is_refused_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parsed(text, "here")
    assert message in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"none\.toml cannot be read: No such file"):
        from_file(tmp_path / "none.toml")


def test_names_are_unique_and_known() -> None:
    (tiny,) = parsed(TINY, "here")
    with pytest.raises(InvalidInputError, match="two workloads are called tiny"):
        joined([tiny], [tiny])
    assert chosen([tiny], []) == [tiny]
    assert chosen([tiny], ["t*", "tiny"]) == [tiny]
    with pytest.raises(InvalidInputError, match=r"no workload 'tyny'; did you mean tiny\?"):
        chosen([tiny], ["tyny"])


def test_the_further_workloads_can_be_added_to_the_standard_list() -> None:
    further = from_file(ROOT / "benchmarks" / "further_workloads.toml")
    listed = joined(standard(), further)
    assert chosen(listed, ["further-*"]) == further
    assert all(one.settings("fifo", 0).policy == "fifo" for one in further)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ('effects = "nodes=2"', "the effect nodes must be a factor up to 1, not 2"),
        ('placement = "x"', "there is no placement 'x'"),
        ("sharing_error = 2.0", "sharing error 2 is invalid"),
        ("length_error = -1.0", "length error must be 0 or more, not -1"),
        ("retries = -1", "retries must be 0 or more, not -1"),
        ("job_failures = -3.0", "job failures must be 0 or more, not -3"),
        ("node_mtbf_s = 0", "node_mtbf_s must be above 0 seconds, not 0"),
    ],
)
def test_an_option_that_no_run_could_have_is_refused_before_any_run(option: str, said: str) -> None:
    (one,) = parsed(f"{TINY}{option}\n", "here")
    with pytest.raises(InvalidInputError, match=said):
        one.check()
