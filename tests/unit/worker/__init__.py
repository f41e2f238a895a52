"""Tests of the measuring process, with no framework."""
