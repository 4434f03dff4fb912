"""The typed client of the API, for Python programs and for the command line."""
