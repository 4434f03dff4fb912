"""What policies are built from: orders, shares, placements, quotas, reasons."""
