"""What every process that a test starts imports first, to see what else it imports."""
