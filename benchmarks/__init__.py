"""Experiments: each runs systems under the same conditions and writes result records.

May import ``salient`` and ``baselines``; never ``analysis``, which reads what is written here.
"""
