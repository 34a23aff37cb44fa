"""Label → observation, with evidence, a statistic, information and a certificate that read the same integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labeldp.errors import InputError
from labeldp.mechanisms.base import Guarantee, Mechanism, Readable, RowMechanism
from labeldp.mechanisms.gaussian import Gaussian
from labeldp.mechanisms.judge import Judge, Plain, StatisticLaw, judge_of, judging_rows
from labeldp.mechanisms.laplace import Laplace
from labeldp.mechanisms.none import NoPrivacy
from labeldp.mechanisms.prior import PriorAware
from labeldp.mechanisms.response import RandomizedResponse
from labeldp.mechanisms.selected import Selected
from labeldp.mechanisms.subset import SubsetSelection
from labeldp.mechanisms.unary import UnaryEncoding
from labeldp.mechanisms.votes import PateAnswers
from labeldp.private import check_num_classes
from labeldp.renamed import renamed

__all__ = [
    "BY_NAME", "Gaussian", "Guarantee", "Judge", "Laplace", "Mechanism", "NoPrivacy", "PateAnswers", "Plain", "PriorAware",
    "RandomizedResponse", "RowMechanism", "Selected", "StatisticLaw", "SubsetSelection", "UnaryEncoding", "judge_of", "judging_rows",
    "mechanism_from_json",
]  # fmt: skip

BY_NAME: dict[str, type[Readable]] = {
    cls.name: cls
    for cls in (
        RandomizedResponse,
        SubsetSelection,
        UnaryEncoding,
        Laplace,
        Gaussian,
        NoPrivacy,
        PateAnswers,
        PriorAware,
        Selected,
    )
}


def mechanism_from_json(data: Any) -> Mechanism:
    """The inverse of `Mechanism.to_json`, for descriptions that another party wrote."""
    if not isinstance(data, dict) or not isinstance(data.get("parameters"), dict):
        raise InputError("a mechanism's description has a name, num_classes and parameters.")
    name = data.get("name")
    if not isinstance(name, str) or name not in BY_NAME:
        raise InputError(f"unknown mechanism {name!r}; this labeldp knows {', '.join(BY_NAME)}.")
    return BY_NAME[name].from_parameters(check_num_classes(data.get("num_classes", 0)), data["parameters"])


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"ScoreLaw": "StatisticLaw", "Moments": "StatisticLaw"})
