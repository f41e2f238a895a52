"""Damaged and random files of every kind, read within bounds of time and memory."""
