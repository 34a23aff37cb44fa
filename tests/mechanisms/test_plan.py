import math

import pytest

import labeldp
from labeldp.errors import InputError
from labeldp.mechanisms.plan import NAMES, calibrate, plan


def test_recommendations():
    assert labeldp.recommend(1.0, 10).name == "subset"
    assert labeldp.recommend(1.0, 2).name == "response"  # k-subset with k = 1 is the same channel in more bytes
    assert labeldp.recommend(4.0, 10).name == "response"


def test_the_gaussian_competes_only_with_a_delta():
    assert {o.mechanism.name for o in plan(1.0, 10).options} == set(NAMES)
    loose = plan(0.01, 2, delta=0.4)
    assert loose.recommended.name == "gaussian"  # at such a δ it says more than any pure mechanism
    assert plan(0.01, 2).recommended.name != "gaussian"


def test_json_is_finite_and_complete():
    data = plan(1.0, 10).to_json()
    assert data["recommended"] == "subset"
    for entry in data["mechanisms"]:
        assert set(entry) >= {"name", "information_nats", "epsilon", "delta", "parameters", "flip_probability"}
        assert all(math.isfinite(entry[key]) for key in ("information_nats", "epsilon", "delta"))
        assert entry["epsilon"] <= 1.0
        assert entry["flip_probability"] == 1 - calibrate(entry["name"], epsilon=1.0, num_classes=10).probability_kept()
    assert "none" not in {entry["name"] for entry in data["mechanisms"]}


def test_calibrate_refuses_unknown_names():
    with pytest.raises(InputError, match="choose one of"):
        calibrate("magic", epsilon=1.0, num_classes=2)
