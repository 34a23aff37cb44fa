"""Features learned from public inputs alone: no label is ever seen here."""
