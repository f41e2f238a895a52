"""Tests of what back ends share, with no framework."""
