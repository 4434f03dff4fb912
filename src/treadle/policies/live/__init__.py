"""The one decision around every live policy: what may run, what pays, who goes first."""
