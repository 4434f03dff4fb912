"""The simulator: the same scheduler, an engine made of arithmetic, and a clock that jumps."""
