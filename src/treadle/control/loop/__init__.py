"""The live loop: gather facts, decide, commit, carry out."""
