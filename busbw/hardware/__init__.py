"""Chips, slices and links: figures with their sources, and the bandwidth that they allow.

Imports the model and the collectives. Where no trusted figure is known there is none here: no
ceiling is better than an invented one. What was measured is judged elsewhere.
"""

from .ceiling import ceiling_of
from .chips import CHIPS, Chip, Confidence, Fabric, chip_of
from .topologies import (
    GPUS,
    SLICES,
    USUAL_TOPOLOGIES,
    Generation,
    Gpu,
    known_topologies,
    topology_of,
    wraps,
)

__all__ = [
    "CHIPS",
    "GPUS",
    "SLICES",
    "USUAL_TOPOLOGIES",
    "Chip",
    "Confidence",
    "Fabric",
    "Generation",
    "Gpu",
    "ceiling_of",
    "chip_of",
    "known_topologies",
    "topology_of",
    "wraps",
]
