"""What a DataLoader that a script gives to `run.prepare` brings along, and what it may not have.

Which samples come when is decided by the run: the order follows from its seed, for any number of
ranks. A loader with an order of its own is refused, since that order would be lost.
"""

from typing import Any, NamedTuple

from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from treadle.core.errors import InvalidInputError


class LoaderSettings(NamedTuple):
    dataset: Any
    drop_last: bool  # short batches at the end of an epoch
    workers: int
    options: dict[str, Any]  # of the loader that takes its place


def settings_of(dataset: Any) -> LoaderSettings:  # noqa: ANN401
    """Those of a loader, or the usual ones of a dataset."""
    if not isinstance(dataset, DataLoader):
        return LoaderSettings(dataset, drop_last=False, workers=0, options={})
    loader = dataset
    if problem := _problem(loader):
        raise InvalidInputError(
            f"the DataLoader given to run.prepare has {problem}, which cannot be shared out over "
            "ranks; give run.prepare the dataset itself: it shuffles by its seed, in batches of "
            "its batch_size"
        )
    options = {
        "collate_fn": loader.collate_fn,
        "worker_init_fn": loader.worker_init_fn,
        "timeout": loader.timeout,
        "multiprocessing_context": loader.multiprocessing_context,
        "prefetch_factor": loader.prefetch_factor,
    }
    return LoaderSettings(loader.dataset, bool(loader.drop_last), loader.num_workers, options)


def _problem(loader: DataLoader[Any]) -> str:
    """What of its order would be lost; empty if nothing is."""
    if loader.batch_sampler is None:
        return "batch_size=None"
    if type(loader.batch_sampler) is not BatchSampler:
        return f"a {type(loader.batch_sampler).__name__} as its batch_sampler"
    sampler = loader.sampler
    if type(sampler) is RandomSampler:
        if sampler.replacement:
            return "a RandomSampler with replacement"
        if sampler.num_samples != len(sampler.data_source):
            return f"a RandomSampler of {sampler.num_samples} samples"
        return ""
    iterable = type(sampler).__name__ == "_InfiniteConstantSampler"  # Its dataset is refused.
    if type(sampler) is SequentialSampler or iterable:
        return ""
    return f"a {type(sampler).__name__} as its sampler"
