"""AITurbo (Zhao et al., HPDC'21): predictable and unpredictable jobs, CPUs and GPUs."""
