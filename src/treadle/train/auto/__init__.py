"""An unmodified single-device PyTorch script as an elastic data-parallel job.

    treadle submit --elastic auto -- python train.py ARGS
    python -m treadle.train.auto train.py ARGS

The script runs from its top in every process, with a few functions of torch replaced: a training
loop over a DataLoader gets this rank's share of each batch, `backward` adds the gradients up over
all ranks, and between two batches the members of the group may change, through the same session as
that of `train.start()`. What cannot be shared out is refused in one sentence (docs/train.md).

    patches.py    what of torch is replaced
    made.py       what the script made: models, optimizers, schedulers, scalers
    support.py    what is refused, and why
    script_run.py the run: passes over a loader, steps, members
    loading.py    the order of a pass, and one rank's share of its batches
    agreement.py  whether the ranks still do the same
    notes.py      how far the others are, and whether they have ended
    files.py      torch.save and torch.load on ranks that are not the first
"""
