"""What a person sees in the terminal, literally."""

from dataclasses import replace
from math import inf, nan

import pytest

from treadle.reports.table import WIDTH_MAX, comparison_table, summary_text

LONG = "tiresias?promote=8&queues=3600,7200,36000&placement=consolidate"


@pytest.fixture
def summaries(run_of, three_jobs):
    fifo = run_of(three_jobs()).summary
    return [fifo, replace(fifo, policy="slow", jct_mean_s=35.5, preemptions=1234, unfinished=2)]


def test_the_table_is_aligned_and_names_the_baseline(summaries):
    assert comparison_table(summaries) == (
        "policy  mean JCT  p50 JCT  p99 JCT  mean wait  makespan  in use  preempted  JCT ratio\n"
        "──────  ────────  ───────  ───────  ─────────  ────────  ──────  ─────────  ─────────\n"
        "fifo      16.7 s   12.0 s   27.7 s     5.33 s    30.0 s   73.3%          0      1.00x\n"
        "slow      35.5 s   12.0 s   27.7 s     5.33 s    30.0 s   73.3%      1,234      2.13x\n"
        "\n"
        "JCT: submission to finish. JCT ratio: mean JCT over that of fifo; below 1 is faster.\n"
        "slow: of 3 jobs 2 did not finish; means are over the finished ones\n"
    )


def test_long_names_are_wrapped_so_that_variants_stay_distinct(summaries):
    other = LONG.replace("consolidate", "spread")
    runs = [replace(summaries[0], policy=LONG), replace(summaries[1], policy=other)]
    table = comparison_table(runs)
    lines = table.splitlines()
    assert max(map(len, lines)) == WIDTH_MAX
    assert lines[2].startswith("tiresias?promote=8&  ")
    assert [line.strip() for line in lines[3:7]] == [
        "queues=3600,7200,",
        "36000&",
        "placement=consolida",
        "te",
    ]


def test_huge_and_infinite_numbers_stay_short(summaries):
    huge = replace(
        summaries[0],
        jct_mean_s=1e308,
        jct_p50_s=inf,
        queue_mean_s=nan,
        makespan_s=1e30,
        queue_length_mean=1e200,
        fairness_p99=inf,
        lost_gpu_h=1e300,
        decide_cpu_s=inf,
    )
    table = comparison_table([summaries[0], huge])
    assert "1e+308 s" in table
    assert max(map(len, table.splitlines())) <= WIDTH_MAX
    text = summary_text(huge)
    assert max(map(len, text.splitlines())) < 2 * WIDTH_MAX
    assert "inf" not in text
    assert "None" not in text
