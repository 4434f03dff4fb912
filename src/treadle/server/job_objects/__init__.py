"""Jobs as objects of a Kubernetes cluster: what kubectl applies, shows and deletes."""
