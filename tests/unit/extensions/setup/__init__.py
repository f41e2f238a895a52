"""Tests of the extension setup."""
