"""More and more agents, until one controller does not keep up: a part of fleet_scale.py."""

import argparse
import os
import time
from pathlib import Path

import msgspec
from benchmarks.fleet_site import site
from benchmarks.fleet_window import (
    ANSWER_MAX_S,
    DECIDED_MAX_S,
    ORDER_MAX_S,
    QUIET_MAX_S,
    Window,
    fill,
    window,
)

FIRST_S = 90.0  # what the first size may take, before any was measured
GROWTH = 2.2  # twice as many agents take so much longer


def grow(options: argparse.Namespace) -> None:
    end_at = time.monotonic() + options.within_s
    rows: list[Window] = []
    agents, took_s, why = options.agents, FIRST_S, ""
    while not why:
        begun = time.monotonic()
        row = _sized(options, agents)
        rows.append(row)
        took_s = time.monotonic() - begun
        print(_line(row), f"  ({took_s:.0f} s)", flush=True)
        if row.late:
            why = f"it does not keep up with {agents} agents: {', '.join(row.late)}"
        elif agents * 2 > options.agents_max:
            why = f"it keeps up with {agents} agents, the most that were asked for"
        elif begun + took_s * (1 + GROWTH) > end_at:
            why = f"it keeps up with {agents} agents, and there was no time for more"
        agents *= 2
    between = agents * 3 // 8
    if rows[-1].late and len(rows) > 1 and time.monotonic() + took_s < end_at:
        rows.append(_sized(options, between))
        kept = "does not keep" if rows[-1].late else "keeps"
        why += f"; it {kept} up with {between}"
    show(options, rows, why)
    if options.json:
        document = {
            "policy": options.policy,
            "cores": os.cpu_count(),
            "found": why,
            "rows": [{**msgspec.to_builtins(row), "late": row.late} for row in rows],
        }
        Path(options.json).write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")


def _sized(options: argparse.Namespace, agents: int) -> Window:
    jobs = round(options.jobs * agents / options.agents)
    with site(options, agents) as here:
        return window(here, jobs, options.seconds, fill(here, jobs))


def show(options: argparse.Namespace, rows: list[Window], why: str) -> None:
    print(
        f"\npolicy {options.policy}, {options.seconds:g} s of each size; p99 in s. Kept up is: "
        f"decided within {DECIDED_MAX_S:g} s, orders there within {ORDER_MAX_S:g} s, agents asked "
        f"again within {QUIET_MAX_S:g} s, requests answered within {ANSWER_MAX_S:g} s"
    )
    print(
        "| agents | devices | jobs | ends/s | core | a decision, CPU ms | decisions/s | "
        "end to decision | order to agent | agent to next call | request | MiB | |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda each: each.agents):
        print(_line(row))
    print(f"\n{why}")


def _line(row: Window) -> str:
    lags = (row.decided, row.ordered, row.quiet, row.answered)
    cells = [
        f"{row.agents}",
        f"{row.devices}",
        f"{row.jobs}",
        f"{row.ends / row.seconds:.1f}",
        f"{100 * row.busy:.0f} %",
        f"{1e3 * row.decision_s:.0f}",
        f"{row.decisions / row.seconds:.2f}",
        *(f"{lag.p99:.2f}" for lag in lags),
        f"{row.memory_mib:.0f}",
        "late: " + ", ".join(row.late) if row.late else "",
    ]
    return f"| {' | '.join(cells)} |"
