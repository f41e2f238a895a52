"""Reproductions of the published experiments that this project grew from: `python -m studies`."""
