"""What runs on one node, whatever engine it belongs to: supervisors, ranks, devices, output."""
