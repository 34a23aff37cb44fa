"""Metrics from released labels alone, each with limits that hold."""

from labeldp.evaluation.accuracy import AccuracyEstimate, estimate_accuracy
from labeldp.evaluation.confusion import estimate_class_shares, estimate_confusion

__all__ = ["AccuracyEstimate", "estimate_accuracy", "estimate_class_shares", "estimate_confusion"]
