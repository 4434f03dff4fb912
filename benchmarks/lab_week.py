"""A lab of ten people, a week on eight devices: who waits how long, with and without fair shares.

    python benchmarks/lab_week.py TRACE [--policy weave-l] [--load 1.0] [--draws 3]
    (TRACE: ../shared/traces/philly_dev_aug14_oct31.csv.gz)

The people are the ten busiest virtual clusters of the Philly trace in that week. Of their jobs of
at most eight GPUs 700 are drawn, those of more than a day are cut there, and all lengths are scaled
to the load. All are resumable and of equal priority.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

from treadle.core.job import JobSpec
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.clusters import cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

WEEK_S, DAY_S, PEOPLE, JOBS, DEVICES = 7 * 86400.0, 86400.0, 10, 700, 8


WEEKS_LEFT_OUT = 6  # in which there are few jobs


class Person(NamedTuple):
    """How one fared."""

    name: str
    jobs: int
    device_h: float
    wait_s: float  # median
    slowdown: float  # median


def a_week(jobs: Sequence[JobSpec], number: int, offered: float) -> list[JobSpec]:
    """Of one week of the trace, so many jobs of ten people that they are this load."""
    first = jobs[0].submit_at + number * WEEK_S
    inside = [
        job for job in jobs if first <= job.submit_at < first + WEEK_S and job.asked <= DEVICES
    ]
    busiest = Counter(job.tenant for job in inside).most_common(PEOPLE)
    people = {name: f"p{rank}" for rank, (name, _) in enumerate(busiest)}
    inside = [job for job in inside if job.tenant in people]
    drawn = sorted(random.Random(number).sample(inside, JOBS), key=lambda job: job.submit_at)
    sums_s = sum(min(job.iterations, DAY_S) * job.asked for job in drawn)
    scale = offered * WEEK_S * DEVICES / sums_s
    return [
        replace(
            job,
            owner=people[job.tenant],
            tenant="",
            submit_at=job.submit_at - first,
            iterations=min(job.iterations, DAY_S) * scale,
        )
        for job in drawn
    ]


def fared(jobs: Sequence[JobSpec], policy: str) -> list[Person]:
    """Each person's week."""
    experiment = prepare(
        Workload("lab", tuple(jobs)),
        cluster(f"1x{DEVICES}"),
        Settings(policy=policy, live=True, restart_cost="30"),
    )
    experiment.finish()
    rows = experiment.recorder.histories.values()
    found = []
    for name in sorted({row.spec.owner for row in rows}):
        own = [row for row in rows if row.spec.owner == name and row.ended_at is not None]
        took = [(row, row.ended_at - row.submitted_at) for row in own if row.ended_at is not None]
        waits = [max(0.0, took_s - row.spec.iterations) for row, took_s in took]
        slow = [took_s / max(60.0, row.spec.iterations) for row, took_s in took]
        hours = sum(row.spec.iterations * row.spec.asked for row, _ in took) / 3600.0
        found.append(Person(name, len(own), hours, median(waits), median(slow)))
    return found


def shown(people: Iterable[Person], title: str) -> None:
    rows = list(people)
    print(f"\n{title}\n{'person':10}{'jobs':>6}{'device-h':>10}{'wait':>10}{'slowdown':>10}")
    for row in sorted(rows, key=lambda row: row.device_h):
        print(
            f"{row.name:10}{row.jobs:6}{row.device_h:10.1f}{row.wait_s:9.0f}s{row.slowdown:10.2f}"
        )
    worst = max(row.wait_s for row in rows)
    lab = median(row.wait_s for row in rows)
    print(f"the lab's median wait {lab:.0f} s, the longest median {worst:.0f} s")
    print(f"mean slowdown of a person {mean(row.slowdown for row in rows):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--policy", default="weave-l")
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--draws", type=int, default=1)
    options = parser.parse_args()
    jobs = load(str(options.trace), cluster=cluster(f"1x{DEVICES}")).jobs
    for number in range(WEEKS_LEFT_OUT, WEEKS_LEFT_OUT + options.draws):
        week = a_week(jobs, number, options.load)
        for fair in ("off", "1d"):
            policy = f"{options.policy}?fair={fair}"
            shown(fared(week, policy), f"week {number}, {len(week)} jobs, {policy}")


if __name__ == "__main__":
    main()
