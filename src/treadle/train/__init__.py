"""Training that can be resized, moved and stopped while it runs.

    import treadle.train as train

    run = train.start()
    model, optimizer, data = run.prepare(model, optimizer, dataset, batch_size=256, seed=0)
    for epoch in run.epochs(10):
        for batch in run.batches(data):
            loss = loss_fn(model(batch.x), batch.y)
            run.backward(loss)
            run.step(optimizer)
        run.report(loss=loss)

The same script runs alone, under torchrun, and under Treadle. Scripts with a loop of their own use
`should_stop`, `leave`, `checkpoint` and `resumed`, which need no torch.
"""

from typing import TYPE_CHECKING

from treadle.train.checkpoint import checkpoint, resumed
from treadle.train.stop import leave, should_stop

if TYPE_CHECKING:
    from treadle.train.session import Run

__all__ = ["checkpoint", "leave", "resumed", "should_stop", "start"]


def start(*, timeout_s: float = 60.0, checkpoint_every_s: float = 600.0) -> "Run":
    """Begin a run: alone, under torchrun, or as a member of a Treadle job.

    timeout_s: how long ranks wait for each other before one of them counts as lost.
    checkpoint_every_s: between checkpoints; one is also written when the job is stopped.
    """
    # Here, so that scripts that only ask `should_stop` need no torch.
    from treadle.train.session import Run  # noqa: PLC0415

    return Run(timeout_s=timeout_s, checkpoint_every_s=checkpoint_every_s)
