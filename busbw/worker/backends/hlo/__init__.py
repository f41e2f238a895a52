"""Optimised HLO: read as text, and proved to be the collective asked for.

Text in, values out; standard library only: whose compiler wrote it does not matter.
"""
