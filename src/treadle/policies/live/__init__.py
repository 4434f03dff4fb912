"""The one decision around every live policy: eligible jobs, what pays, patience, quotas, sharing."""
