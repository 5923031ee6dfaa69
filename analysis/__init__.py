"""Tables and figures, made from result records and from nothing else.

May import: ``salient.records`` of our own code; click, matplotlib, numpy, pandas.
"""
