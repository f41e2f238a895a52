"""What busbw guarantees to its users, and the tests that show it."""
