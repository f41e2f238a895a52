"""What gradient synchronization should cost a training step, by formula."""
