"""What lies on disk, and in which form: no torch, no labels."""
