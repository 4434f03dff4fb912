"""What the fork server of the tests loads once, so that members begin at once."""

import torch
import torch._dynamo
import torch.distributed

import treadle.train.auto.patches
import treadle.train.session  # noqa: F401

torch.set_num_threads(1)
torch.optim.AdamW([torch.zeros(1, requires_grad=True)])
