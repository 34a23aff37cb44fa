"""Every field of every file that comes from another party, forged: no statement may get stronger by it."""
