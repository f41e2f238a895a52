"""Proof from optimized HLO, the text of a program that XLA compiled."""
