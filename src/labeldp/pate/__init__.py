"""PATE: teachers vote, an aggregator answers privately, students learn from the answers. Trust model: central."""
