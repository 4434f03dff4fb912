"""What happened, in numbers, tables, figures and one page."""
