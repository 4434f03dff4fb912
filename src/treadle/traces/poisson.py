"""The plain synthetic workload of many papers: Poisson arrivals, mostly small and short jobs."""

from random import Random

from treadle.core.cluster import Cluster
from treadle.core.job import JobSpec, Profile
from treadle.traces.workload import Workload

SIZES = {1: 0.60, 2: 0.13, 4: 0.13, 8: 0.11, 16: 0.03}
# (share of the jobs, lowest and highest exponent of 10 of their seconds)
DURATIONS = ((0.8, 1.8, 3.2), (0.2, 3.2, 4.6))


def draw_poisson(random: Random, jobs: int, load: float, cluster: Cluster) -> Workload:
    """Sizes, durations and gaps, each drawn by itself; whole seconds."""
    fitting = {size: share for size, share in SIZES.items() if size <= cluster.device_count}
    sizes = random.choices(list(fitting), list(fitting.values()), k=jobs)
    durations = [_duration_s(random) for _ in range(jobs)]
    work = sum(size * duration for size, duration in zip(sizes, durations, strict=True))
    span_s = work / (cluster.device_count * load)
    # Exponential gaps, scaled so that the last job arrives at the end of the span.
    gaps = [random.expovariate(1.0) for _ in range(jobs)]
    gaps[0] = 0.0
    scale = span_s / sum(gaps) if jobs > 1 else 0.0
    shapes = {size: ((size,), Profile(size=size)) for size in fitting}
    specs: list[JobSpec] = []
    arrival = 0.0
    for number in range(jobs):
        arrival += gaps[number] * scale
        one_size, profile = shapes[sizes[number]]
        specs.append(
            JobSpec(
                str(number),
                float(durations[number]),
                sizes=one_size,
                profile=profile,
                submit_at=float(round(arrival)),
            )
        )
    return Workload("poisson", tuple(specs), "generated")


def _duration_s(random: Random) -> int:
    _, low, high = DURATIONS[0] if random.random() < DURATIONS[0][0] else DURATIONS[1]
    return round(10 ** random.uniform(low, high))
