"""The scheduling core: facts in, orders out, and nothing but the standard library."""
