"""The page's "Measured ε ≥ x" is one claim, at one stated confidence, over every audit that is known of a run."""

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from labeldp.audit.counts import Bound, Headline, OneRunCounts
from labeldp.audit.measure import audit_paper
from labeldp.audit.result import AuditResult, KeptAudit
from labeldp.errors import InputError
from labeldp.files.summary import Certificate
from labeldp.mechanisms import Guarantee
from labeldp.report.page import Report

from .pages import text
from .test_readers import ODD, leaves, replaced

MODEL, RELEASE, OTHER = "m" * 64, "a" * 64, "b" * 64


def kept(
    place,
    correct,
    guesses=20,
    *,
    model=MODEL,
    release=None,
    truth=False,
    delta=0.0,
    confidence=0.95,
    attacks=("model",),
):
    """An audit with these counts, as `labeldp audit --out` keeps it."""
    bounds = [Bound(attack, (OneRunCounts(correct, guesses, guesses, 2, delta > 0),)) for attack in attacks]
    result = AuditResult.of(bounds, Guarantee(math.inf, delta), confidence=confidence, canaries=guesses, candidates=2)
    audit = KeptAudit.of(result, None, None, model=model, knows_truth=truth)
    replace(audit, release=release, parts=() if release is None else (release,)).save(place)
    return place


def headlines(*places, **options):
    return [run.headline for run in Report.of(list(places), **options).runs]


def test_two_audits_of_a_model_exceed_its_epsilon_at_most_once_in_twenty(tmp_path):
    """Exact: 20 independent guesses in each of two audits, over all 441 outcomes, of a mechanism whose guesses are as good as its ε
    allows. Each at its own 95%, as it was, the larger is above ε in 9.7% of cases.
    """
    n = 20
    places = [[kept(tmp_path / f"{k}-{v}", v) for v in range(n + 1)] for k in range(2)]
    alone = [headlines(place)[0].epsilon for place in places[0]]
    epsilon = alone[17] - 1e-9  # where one audit at 95% is above it in very nearly 5%
    mass = binom.pmf(np.arange(n + 1), n, 1 / (1 + math.exp(-epsilon)))
    shared = each = 0.0
    for v in range(n + 1):
        for w in range(n + 1):
            found = headlines(places[0][v], places[1][w])
            assert [(one.shared_by, one.confidence) for one in found] == [(2, 0.95)] * 2
            shared += float(mass[v] * mass[w]) * any(one.epsilon > epsilon for one in found)
            each += float(mass[v] * mass[w]) * (max(alone[v], alone[w]) > epsilon)
    assert shared <= 0.05
    assert each == pytest.approx(1 - 0.95**2, abs=1e-6)


def test_the_confidence_that_an_audit_was_asked_for_does_not_enter(tmp_path):
    """--confidence 0.05 gave the card a larger ε, without a word."""
    bold, usual = kept(tmp_path / "bold", 15, confidence=0.05), kept(tmp_path / "usual", 15)
    assert (
        json.loads((bold / "audit.json").read_text())["audit"]["epsilon_low"]
        > 2 * json.loads((usual / "audit.json").read_text())["audit"]["epsilon_low"]
    )
    assert headlines(bold) == headlines(usual)
    words = text(Report.of([bold]).html())
    assert "95% confidence" in words
    assert "5% confidence" not in words.replace("95% confidence", "")
    said = Report.of([bold]).to_json()["runs"][0]
    assert said["headline"]["confidence"] == said["measured"][0]["confidence"] == 0.95
    assert said["headline"]["shared_by"] == said["measured"][0]["shared_by"] == 1
    assert said["measured"][0]["epsilon_low"] == said["headline"]["epsilon_low"]
    # Nor does what its file claims beside its counts.
    path = bold / "audit.json"
    data = json.loads(path.read_text())
    data["audit"]["epsilon_low"] = data["audit"]["looks"][0]["epsilon_low"] = 9.0
    data["audit"]["looks"][0]["alpha"], data["audit"]["shared_by"] = 0.9, 1
    path.write_text(json.dumps(data))
    assert headlines(bold) == headlines(usual)


def test_the_card_says_how_sure_it_is_and_of_how_many(tmp_path):
    place = kept(tmp_path / "a", 18, attacks=("model", "neighbours", "calibrated"))
    words = text(Report.of([place]).html())
    assert "95% confidence, shared by 3 lower bounds" in words
    assert "All lower bounds hold together with 95% confidence" in words
    side_by_side = text(Report.of([place, kept(tmp_path / "b", 18, model="n" * 64)]).html())
    assert "Measured ε ≥, each 95%" in side_by_side


def test_what_lacks_its_counts_stands_apart(tmp_path):
    """An audit that an earlier version kept: shown at its own confidence, and in no headline."""
    old, new = kept(tmp_path / "old", 20, confidence=0.5), kept(tmp_path / "new", 15)
    data = json.loads((old / "audit.json").read_text())
    for look in data["audit"]["looks"]:
        del look["counts"]
    (old / "audit.json").write_text(json.dumps(data))
    (run,) = Report.of([old]).runs
    assert run.headline is None
    words = text(Report.of([old]).html())
    assert "no bound what was measured stands apart" in words
    assert "without what it counted" in words
    assert "50%" in words
    (found,) = [one for one in headlines(old, new) if one is not None]
    assert found == headlines(new)[0]


def test_the_papers_interval_is_no_bound(tmp_path):
    table = np.full((60, 4), 0.02)
    table[:, 1] = 0.94
    interval = audit_paper(table, np.zeros(60, int), np.ones(60, int))
    assert interval.epsilon_low > 2
    assert interval.shared_by is None
    assert "which is no bound" in interval.summary()
    KeptAudit.of(interval, None, None, model=MODEL, knows_truth=True).save(tmp_path / "paper")
    (run,) = Report.of([tmp_path / "paper"], owner=True).runs
    assert run.headline is None
    assert "the paper’s interval is no bound" in text(Report.of([tmp_path / "paper"], owner=True).html())
    both = headlines(tmp_path / "paper", kept(tmp_path / "bound", 15), owner=True)
    assert both == [None, headlines(tmp_path / "bound")[0]]


@pytest.mark.parametrize(
    ("first", "second", "shared_by"),
    [
        ({}, {}, 2),  # one model
        ({"release": RELEASE}, {"model": "n" * 64, "release": RELEASE}, 2),  # two models of one release
        ({}, {"model": "n" * 64}, 1),
        ({"release": RELEASE}, {"model": "n" * 64, "release": OTHER}, 1),
        ({}, {"model": None}, 2),  # of scores that name no model: it may be any's
        ({"model": None}, {"model": None}, 2),
        ({}, {"truth": True}, 2),  # the owner's, and known
        ({}, {"attacks": ("model", "release")}, 3),
    ],
)
def test_every_audit_that_may_be_of_the_same_is_counted(tmp_path, first, second, shared_by):
    found = headlines(kept(tmp_path / "a", 18, **first), kept(tmp_path / "b", 18, **second))
    assert found[0].shared_by == shared_by
    assert found[0] == Headline.of(
        [stated.bound for stated in found[0].bounds], delta=0.0, others=shared_by - len(found[0].bounds)
    )


def test_an_audit_that_was_replaced_is_still_known(tmp_path):
    """Else one would audit into the same directory until the bound suits."""
    place = kept(tmp_path / "a", 15)
    assert headlines(kept(place, 15))[0].shared_by == 1  # the same again is the same
    assert headlines(kept(place, 16))[0].shared_by == 2
    assert headlines(kept(place, 17, attacks=("model", "release")))[0].shared_by == 4
    assert headlines(kept(place, 17, attacks=("model", "release")))[0].shared_by == 4
    (place / "audit.json").write_text("{")
    assert headlines(kept(place, 17))[0].shared_by == 2


@pytest.mark.parametrize("number", [-1, 0.5, "3", None, True, 10**400])
def test_a_number_of_replaced_bounds_is_one(tmp_path, number):
    place = kept(tmp_path / "a", 15)
    data = json.loads((place / "audit.json").read_text())
    (place / "audit.json").write_text(json.dumps(data | {"replaced": number}))
    with pytest.raises(ValueError, match="damaged"):
        headlines(place)


def test_bounds_are_stated_at_the_delta_of_the_certificate_that_they_stand_beside(tmp_path):
    """An audit at δ = 0 (of scores, with no release named) beside a certificate at 1e-5, and the other way round."""
    run = Report.of([kept(tmp_path / "a", 200, 220)]).runs[0]
    pure = run.headline.epsilon
    loose = replace(run, certificate=Certificate(2.0, 1e-5)).with_headline(0)
    assert (loose.headline.delta, loose.measured[0].result.delta) == (1e-5, 1e-5)
    assert 0 < loose.headline.epsilon < pure
    run = Report.of([kept(tmp_path / "b", 200, 220, delta=1e-5)]).runs[0]
    assert run.headline.delta == 1e-5  # nothing is stated beside it: its own
    strict = replace(run, certificate=Certificate(2.0, 0.0)).with_headline(0)
    assert (strict.headline.delta, strict.headline.epsilon) == (0.0, pure)


def test_any_value_in_a_kept_audit_makes_a_page_or_a_refusal(tmp_path):
    """Also where the next audit takes its place."""
    good = json.loads((kept(tmp_path / "good", 15, attacks=("model", "release")) / "audit.json").read_text())
    good["violins"] = None
    rng, outcomes, place = random.Random(0), set(), tmp_path / "odd"
    place.mkdir()
    for number, path in enumerate(rng.sample([path for path in leaves(good) if path], 40)):
        (place / "audit.json").write_text(json.dumps(replaced(good, path, rng.choice(ODD))))
        try:
            report = Report.of([place])
            assert number % 5 or report.html()
            json.dumps(report.to_json(), allow_nan=False)
            outcomes.add("page")
        except InputError:
            outcomes.add("refusal")
        kept(place, 18)
        assert headlines(place)[0].shared_by >= 2
    assert outcomes == {"page", "refusal"}
