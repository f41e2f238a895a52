"""Tests of optional features, a folder for each."""
