"""A training of two ranks for tests: prints the first loss, the last loss and the weight."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.ones(4, 1) * (1 + dist.get_rank())  # each rank has data of its own
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = ((model(inputs) - 3 * inputs) ** 2).mean()
        loss.backward()
        optimiser.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(float(mean))
    (weight,) = (float(each.detach()) for each in model.parameters())
    print(losses[0], losses[-1], weight)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
