"""Trains a transformer that keeps a GPU busy all the time; --hold-gib takes more GPU memory."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--length", type=int, default=512)
parser.add_argument("--hold-gib", type=float, default=0.0)
options = parser.parse_args()

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# What a large model would keep: parameters and the state of its optimiser.
held = torch.zeros(int(options.hold_gib * 2**30), dtype=torch.uint8, device=device)
layer = nn.TransformerEncoderLayer(
    options.width, 16, 4 * options.width, batch_first=True, dropout=0.0
)
model = nn.Sequential(
    nn.Embedding(1000, options.width),
    nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False),
    nn.Linear(options.width, 1000),
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
words = torch.randint(1000, (options.batch, options.length), device=device)

for step in range(1, options.steps + 1):
    with torch.autocast(device.type, dtype=torch.bfloat16):
        logits = model(words)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0 or step in (1, options.steps):
        print(f"step {step}/{options.steps} loss {loss.item():.4f}", flush=True)
