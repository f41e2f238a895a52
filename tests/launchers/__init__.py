"""Tests of launchers: variables as real ones set them, and odd ones."""
