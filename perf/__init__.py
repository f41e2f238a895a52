"""The promises: tests without any logic."""
