"""The jobs of `treadle demo`: a training script and the times of submission."""
