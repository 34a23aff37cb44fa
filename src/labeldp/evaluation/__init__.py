"""Metrics from released labels alone, each with limits that hold."""
