"""How text, tables and progress are printed on a terminal."""
