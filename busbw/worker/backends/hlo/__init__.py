"""Optimised HLO, whoever wrote it: read as text, proved to be the collective asked for."""
