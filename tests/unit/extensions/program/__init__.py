"""What is read of whole programs."""
