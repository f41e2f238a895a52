"""How often the rules of the verdict err: on recorded sessions, on kept ones, on simulated ones.

Standard library, numpy and busbw only. busbw itself imports none of it.
"""
