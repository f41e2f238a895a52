"""Numbers in, numbers out: samples, launches and sessions, each formula once.

Judges nothing and knows no threshold: those are arguments.
"""
