"""The engine on a Ray cluster; nothing else in Treadle imports ray."""
