"""Damaged and made-up files of every kind, read within bounds of time and memory."""
