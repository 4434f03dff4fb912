"""How large a fleet one controller can manage: a real daemon over many simulated agents.

    python -m benchmarks.fleet_scale --agents 200 --devices 8 --jobs 2000
    python -m benchmarks.fleet_scale --grow [--json FILE]    # more and more agents

The daemon is `treadle up` in a process of its own, with the fleet engine. All agents are in one
other process (fleet_agents.py) and run nothing, but they speak the messages of real ones through
the socket and the frames of the driver on Ray. What Ray itself costs is not in these figures.

1. idle: agents only say that nothing happened, every two seconds.
2. burst: one submission that starts a job on every device at once, then one order that stops all.
3. failures: a job on every device again, and all fail at once. Why they did is read from their
   output, of which each call takes --output-s.
4. steady: as many jobs as asked for, of 1 to 16 devices and ten minutes on average. Jobs that end
   are replaced. --grow has this part alone.

Whether the controller keeps up is said by its lags (fleet_window.py). CPU times are those of the
daemon; they depend on the machine, and so do all others.
"""

import argparse
import time
from collections.abc import Callable

from benchmarks.fleet_grow import grow
from benchmarks.fleet_site import Site, Spread, site, timed, wait_for
from benchmarks.fleet_window import Window, fill, window


def measure(here: Site) -> Window:
    options = here.options
    devices = here.agents * options.devices
    print(f"{here.agents} agents, {devices} devices, policy {options.policy}")
    print(f"  up after {here.up_s:.1f} s, {here.memory_mib():.0f} MiB")
    idle(here, options.idle_s)
    burst(here, devices)
    failures(here, devices)
    return steady(here, options.jobs, options.seconds)


def idle(here: Site, seconds: float) -> None:
    here.seen(new=True)
    before = here.cpu_s()
    time.sleep(seconds)
    spent = here.cpu_s() - before
    polls = here.seen().calls["facts"]
    print(f"  idle: {100 * spent / seconds:.1f} % of a core, {polls / seconds:.0f} calls a second")
    print(f"    a round of {here.agents} heartbeats {1e3 * spent * here.agents / polls:.1f} ms CPU")


def burst(here: Site, devices: int) -> None:
    """A job on each device at once, and all stopped at once."""
    told(here, "start", lambda: here.submit(1, devices, 1e6), devices)
    told(here, "stop", lambda: here.client.cancel("1"), devices)
    wait_for(lambda: not here.client.job_page(limit=1).jobs)


def failures(here: Site, devices: int) -> None:
    """How long it takes until all ends are on record, and what is answered meanwhile."""
    here.seen(new=True)
    here.submit(1, devices, 1e6)
    wait_for(lambda: here.client.status().running >= devices)
    here.seen(new=True)
    before, begun, answered = here.cpu_s(), time.monotonic(), [0.0]
    here.fail()

    def done() -> bool:
        answered.append(timed(here.client.status))
        return not here.client.job_page(limit=1).jobs

    wait_for(done)
    print(
        f"  {devices} jobs that failed at once: on record after {time.monotonic() - begun:.2f} s\n"
        f"    CPU {here.cpu_s() - before:.2f} s, {here.seen().calls['output']} calls for output; "
        f"requests were answered within {max(answered):.2f} s"
    )


def told(here: Site, what: str, act: Callable[[], object], orders: int) -> None:
    """How long it takes until all agents have their orders, and what the daemon does for it."""
    here.seen(new=True)
    before, decided = here.cpu_s(), here.metric("treadle_decision_cpu_seconds_total")
    begun = time.monotonic()
    act()
    answered = time.monotonic()

    def done() -> bool:
        seen = here.seen()
        return orders == (seen.starts if what == "start" else seen.ends)

    wait_for(done)
    time.sleep(1.0)  # for the last facts to be taken
    seen, spent = here.seen(), here.cpu_s() - before
    decided = here.metric("treadle_decision_cpu_seconds_total") - decided
    print(
        f"  {orders} orders to {what}: answered after {answered - begun:.2f} s, the first was "
        f"there after {seen.first_order_at - begun:.2f} s and the last after "
        f"{seen.last_order_at - begun:.2f} s\n"
        f"    CPU {spent:.2f} s, of that decisions {decided:.2f} s; the rest is "
        f"{1e3 * (spent - decided) / orders:.2f} ms an order"
    )


def steady(here: Site, jobs: int, seconds: float) -> Window:
    found = window(here, jobs, seconds, fill(here, jobs))
    print(
        f"  {jobs} jobs: {100 * found.busy:.0f} % of a core, "
        f"{found.ends / found.seconds:.1f} ends and {found.orders / found.seconds:.1f} orders a "
        f"second\n"
        f"    {found.decisions} decisions, {1e3 * found.decision_s:.0f} ms CPU each; all else is "
        f"{1e3 * found.beside_s:.0f} ms CPU for each round of heartbeats; calls: {found.calls}\n"
        f"    decided {said(found.decided)} after an end; an order was with its agent after "
        f"{said(found.ordered)}\n"
        f"    facts were taken after {said(found.taken)}; agents were asked again after "
        f"{said(found.quiet)}; requests were answered after {said(found.answered)}\n"
        f"    free devices had the next job after {said(found.refill)}; memory "
        f"{found.memory_mib:.0f} MiB; agents' process {100 * found.agents_busy:.0f} % of a core\n"
        f"    {'late: ' + ', '.join(found.late) if found.late else 'it keeps up'}"
    )
    return found


def said(spread: Spread) -> str:
    return f"{spread.p50:.2f} s (p99 {spread.p99:.2f}, max {spread.max:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2000, help="at --agents; grows with them")
    parser.add_argument("--policy", default="weave-l")
    parser.add_argument("--idle-s", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=30.0, help="of the steady part")
    parser.add_argument("--output-s", type=float, default=0.01, help="to read output, of a call")
    parser.add_argument("--grow", action="store_true")
    parser.add_argument("--agents-max", type=int, default=12_800)
    parser.add_argument("--within-s", type=float, default=340.0, help="for --grow, about")
    parser.add_argument("--json", help="where --grow writes what it found")
    options = parser.parse_args()
    if options.grow:
        grow(options)
        return
    with site(options, options.agents) as here:
        measure(here)


if __name__ == "__main__":
    main()
