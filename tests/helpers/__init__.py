"""What several folders of tests share: sessions, workers, package indexes, recorded data."""
