"""Tests of what workers do besides measuring."""
