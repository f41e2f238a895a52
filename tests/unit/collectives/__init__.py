"""Tests of what each collective says of itself, with no framework."""
