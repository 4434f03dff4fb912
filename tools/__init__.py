"""Programs for those who work on Treadle."""
