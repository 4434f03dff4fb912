"""The engine: one node or many, each with an agent, under one controller."""
