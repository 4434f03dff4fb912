"""Processes forked from a server that has loaded what tests need before.

A process of the tests has one fork server, and what it loads is fixed when it starts: so this is
the one list. A child then begins in hundredths of a second, where importing torch takes ten.
"""

import multiprocessing

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.store.dying", "psycopg", "tests.train.preload"])
