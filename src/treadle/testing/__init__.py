"""Test support for plug-ins: contracts to subclass, builders, strategies and clocks.

Needs pytest and hypothesis: `pip install 'treadle[testing]'`.
"""
