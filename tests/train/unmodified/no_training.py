"""A script that trains nothing."""

print("done")
