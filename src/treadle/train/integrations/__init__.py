"""Stop, checkpoint and resume for trainers of others: Hugging Face, Lightning, Accelerate.

Each module imports its library when it is imported itself; none is needed by the rest of Treadle.
"""
