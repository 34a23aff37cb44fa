"""Experiments on bundled data, both halves in one place: release, train, audit."""
