"""Who runs, how many devices, which plan, in what turn: one policy, one file or one order."""
