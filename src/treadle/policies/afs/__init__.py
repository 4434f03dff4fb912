"""AFS and AFS-P (Hwang et al., NSDI'21)."""
