"""Tests of plugin."""
