"""What `treadle demo` runs: a training job and the story around it."""
