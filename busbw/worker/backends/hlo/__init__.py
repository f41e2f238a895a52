"""Optimised HLO: read as text, proved to be the collective asked for, its algorithm read from it.

Text in, values out; standard library only: whose compiler wrote it does not matter.
"""

from . import algorithm, proof, text

__all__ = ["algorithm", "proof", "text"]
