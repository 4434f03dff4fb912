"""Files of jobs, brought from node to node."""
