"""Says nothing while it works: so many rounds, given as a plain number."""

import sys
import time

for _ in range(int(sys.argv[1])):
    time.sleep(0.1)
