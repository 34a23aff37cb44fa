"""Public features, and labels that are released before anything trains on them."""
