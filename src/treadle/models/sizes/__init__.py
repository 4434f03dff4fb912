"""What a job makes of more devices or fewer, as policies ask for it: ladders, hulls, curves."""
