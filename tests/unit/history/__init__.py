"""Tests of the history on disk."""
