"""Training in a run directory, whatever the model: what to train, on which rows, and how well it does by released labels."""
