"""Tests of `busbw.session`, each phase by itself."""
