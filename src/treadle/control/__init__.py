"""The live side: the loop that runs the same scheduler against real time and real engines."""
