"""What plug-ins are held to: contracts to subclass, builders, strategies and clocks for tests.

Needs pytest and hypothesis: `pip install 'treadle[testing]'`.
"""
