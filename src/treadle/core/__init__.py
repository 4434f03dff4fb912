"""The scheduling core: facts in, orders out, on the standard library alone."""
