"""Prepares data: hashes rows, really computing, and prints how far it is."""

import argparse
import hashlib
import sys
from collections.abc import Iterator


def bar(items: range) -> Iterator[int]:
    """A progress bar on one line, as many scripts print one."""
    for number, item in enumerate(items, 1):
        yield item
        if number % 10 == 0 or number == len(items):
            share = 100 * number // len(items)
            sys.stderr.write(f"\r{share:3}%|{'#' * (share // 10):10}| {number}/{len(items)}")
            sys.stderr.flush()


options = argparse.ArgumentParser()
options.add_argument("--rows", type=int, default=100)
options.add_argument("--workers", type=int, default=1)
chosen = options.parse_args()
text = b"row" * 2000
for _ in bar(range(chosen.rows)):
    for _ in range(150):
        text = hashlib.sha256(text).digest() * 190
