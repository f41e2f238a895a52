"""Reads optimized HLO (the text of a program that XLA compiled), and proves programs by this text.

A proof shows that the program of a case contains the requested collective.
"""
