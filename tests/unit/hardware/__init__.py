"""Tests of the figures of chips and of what is derived from them."""
