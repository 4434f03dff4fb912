"""The engine on a Kubernetes cluster: an agent pod on each node, and a Lease with an epoch."""
