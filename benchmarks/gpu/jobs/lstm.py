"""Trains an LSTM language model: long chains of kernels that use part of the GPU."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=800)
options = parser.parse_args()

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
embedding = nn.Embedding(5000, 512).to(device)
lstm = nn.LSTM(512, 512, num_layers=2, batch_first=True).to(device)
head = nn.Linear(512, 5000).to(device)
weights = [*embedding.parameters(), *lstm.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(weights, lr=1e-3)
words = torch.randint(5000, (32, 128), device=device)

for step in range(1, options.steps + 1):
    hidden, _ = lstm(embedding(words))
    loss = nn.functional.cross_entropy(head(hidden).flatten(0, 1), words.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step in (1, options.steps):
        print(f"step {step}/{options.steps} loss {loss.item():.4f}", flush=True)
