"""Tests of the baselines on disk."""
