"""Chips, slices and links: figures with their sources, and the bandwidth that they allow.

Imports the model and the collectives. Where no trusted figure is known there is none here: no
ceiling is better than an invented one. What was measured is judged elsewhere.
"""

from .ceiling import bound_of, ceiling_of
from .chips import CHIPS
from .topologies import GPUS, USUAL_TOPOLOGIES, topology_of, wraps

__all__ = [
    "CHIPS",
    "GPUS",
    "USUAL_TOPOLOGIES",
    "bound_of",
    "ceiling_of",
    "topology_of",
    "wraps",
]
