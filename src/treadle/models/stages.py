"""The stage times of a job: from its profile, or from a model of the catalogue.

Most traces have durations but no stage times. To study sharing on them, such a job gets the stages
of a catalogue model: the one it names, or one drawn by seed and job id. The stages are scaled to
the job's own iteration, so its time alone stays as in the trace.
"""

from typing import NamedTuple

from treadle.core.job import JobId, JobSpec, Profile
from treadle.models.catalogue import MURI, muri_profile

MODELS = tuple(MURI)
_REMEMBERED_MAX = 100_000  # jobs


class Stages(NamedTuple):
    """Seconds of one iteration at each resource, and of the whole iteration alone.

    The stages need not add up to the whole: a job may overlap them, or pause between them.
    """

    load_s: float  # storage
    prepare_s: float  # CPU
    compute_s: float  # device
    sync_s: float  # network
    alone_s: float


class StageTimes:
    """The stages of every job; equal stages are the same object, which keeps kinds few."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.drawn: dict[JobId, str] = {}  # job -> model, for jobs whose model was drawn at random
        self._stages: dict[Stages, Stages] = {}
        # By job; the rest of the key is stored with the answer, because hashing a profile at every
        # call costs more than everything else.
        self._known: dict[JobId, tuple[Profile, int, Stages]] = {}

    def of(self, spec: JobSpec) -> Stages:
        known = self._known.get(spec.id)
        if known is not None and known[0] is spec.profile and known[1] == spec.asked:
            return known[2]
        if len(self._known) >= _REMEMBERED_MAX:
            self._known.clear()
            self._stages.clear()
        found = self._find(spec)
        stages = self._stages.setdefault(found, found)
        self._known[spec.id] = (spec.profile, spec.asked, stages)
        return stages

    def _find(self, spec: JobSpec) -> Stages:
        profile = spec.profile
        if knows_stages(profile):
            return _stages(profile, profile.iteration_s)
        if profile.model in MURI:
            model = profile.model
        else:
            model = self.drawn[spec.id] = draw(self.seed, spec.id)
        return _stages(muri_profile(model, catalogue_size(model, spec.asked)), profile.iteration_s)


def knows_stages(profile: Profile) -> bool:
    """False if the stages are the default, as in traces with durations only."""
    stages = (profile.load_s, profile.prepare_s, profile.compute_s, profile.sync_s)
    return stages != (0.0, 0.0, 1.0, 0.0)


def draw(seed: int, job: JobId) -> str:
    """One of the catalogue's models, each as likely as any other."""
    from hashlib import blake2b  # noqa: PLC0415  # loads slowly, and most runs never draw

    # A hash and not a generator: the draw must not depend on the order of calls.
    digest = blake2b(f"{seed}/{job}".encode(), digest_size=8).digest()
    return MODELS[int.from_bytes(digest, "big") % len(MODELS)]


def catalogue_size(model: str, asked: int) -> int:
    """The smallest measured size that is at least the asked one, else the largest measured."""
    sizes = MURI[model]
    return min((size for size in sizes if size >= asked), default=max(sizes))


def _stages(profile: Profile, alone_s: float) -> Stages:
    """The profile's stages, stretched to an iteration of this length."""
    stretch = alone_s / profile.iteration_s
    return Stages(
        profile.load_s * stretch,
        profile.prepare_s * stretch,
        profile.compute_s * stretch,
        profile.sync_s * stretch,
        alone_s,
    )
