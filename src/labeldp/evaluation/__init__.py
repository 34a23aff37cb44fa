"""Metrics from released labels alone, each with limits that hold."""

from labeldp.evaluation.accuracy import AccuracyEstimate, estimate_accuracy
from labeldp.evaluation.confusion import estimate_class_shares, estimate_confusion
from labeldp.evaluation.curves import Curves, estimate_curves
from labeldp.evaluation.metrics import METRICS, MetricEstimate, estimate_metric, estimate_metrics
from labeldp.evaluation.proper import compare, log_likelihoods

__all__ = [
    "METRICS",
    "AccuracyEstimate",
    "Curves",
    "MetricEstimate",
    "compare",
    "estimate_accuracy",
    "estimate_class_shares",
    "estimate_confusion",
    "estimate_curves",
    "estimate_metric",
    "estimate_metrics",
    "log_likelihoods",
]
