"""How values, tables and progress look in a terminal."""
