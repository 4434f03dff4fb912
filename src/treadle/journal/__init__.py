"""The journal: one JSON line for each event and action, written as it happens, read for replay."""
