"""Many nodes, each with an agent that runs the local engine, under one controller."""
