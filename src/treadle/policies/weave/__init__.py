"""weave: one price for a device decides size, company, plan, order and place."""
