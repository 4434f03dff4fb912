"""`python -m treadle`."""

from treadle.cli.entry import main

main()
