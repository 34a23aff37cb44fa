"""Private selection as a mechanism: its base and the law of what it releases, in exact arithmetic; then its sampler."""

import dataclasses
import itertools
import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp import Gaussian, NoPrivacy, PrivateLabels, SecureEntropy, SeededEntropy
from labeldp.accounting.cost import Cost
from labeldp.errors import InputError, NoJudgeError
from labeldp.mechanisms import BY_NAME, Selected, judge_of, judging_rows, mechanism_from_json
from labeldp.mechanisms.joint import Joint
from labeldp.mechanisms.plan import NAMES
from labeldp.mechanisms.repeats import Repeats, TwoSidedGeometric
from labeldp.mechanisms.selected import PURE

from .channels import WHOLE, channel
from .test_repeats import below_or_at, log, noise_law

mpmath.mp.dps = 80
FALSE_ALARM = 1e-7  # of each goodness-of-fit test


# ── the certificate ──


@given(st.floats(0.01, 32), st.sampled_from([(2.0, 1.0), (10.0, 0.0), (10.0, 1.0), (40.0, 2.5)]), st.integers(2, 12))
@settings(max_examples=40)
def test_the_certificate_is_that_of_the_best_of_k_and_never_exceeds_what_was_asked(epsilon, law, classes):
    repeats = Repeats(mean=law[0], shape=law[1])
    mechanism = Selected.calibrated(epsilon=epsilon, num_classes=classes, names=list(PURE), repeats=repeats)
    dearest = max(mechanism.noise.certificate().pure, *(part.certificate().pure for part in mechanism.parts))
    assert mechanism.base() == Cost(pure=dearest)
    assert mechanism.certificate() == repeats.cost(Cost(pure=dearest))
    assert dearest <= repeats.base_epsilon(epsilon)
    assert epsilon * 0.999 <= mechanism.certificate().pure <= epsilon
    assert mechanism.guarantee().delta == 0


def test_a_score_that_costs_more_than_the_releases_counts():
    mechanism = dataclasses.replace(example(), noise=TwoSidedGeometric(5))
    assert mechanism.base() == TwoSidedGeometric(5).certificate()
    assert mechanism.certificate() == mechanism.repeats.cost(mechanism.base())


# ── brute force: a whole selection, with all of its randomness written out ──

SCORING, RELEASED = np.array([1, 3]), (0, 2)  # of four rows with two classes


def tiny(epsilon=2.0, mean=2.0, shape=1.0):
    return Selected.calibrated(
        epsilon=epsilon, num_classes=2, names=("response", "unary"), repeats=Repeats(mean=mean, shape=shape)
    )


def predict(number, observations):
    """A pure function that depends on the candidate and on what was observed: of unary encoding, on whether the two rows agree."""
    seen = [int(observations[row, 1]) for row in RELEASED]
    return np.array(seen) if number == 0 else np.array([int(seen[0] == seen[1]), 1])


def observations_of(mechanism, number, seen):
    """All four rows: scoring rows say nothing."""
    table = np.zeros((4, mechanism.observation_bytes), dtype=np.uint8)
    for row, one in zip(RELEASED, seen, strict=True):
        table[row, 0], table[row, 1 : 1 + len(one)] = number + 1, list(one)
    return table


def base_law(mechanism, labels):
    """P[(candidate, what was observed of the released rows)] and the number of right answers there, exactly."""
    law = {}
    for number, part in enumerate(mechanism.parts):
        table = channel(part)
        for seen in itertools.product(table, repeat=2):
            p = math.prod(table[one][labels[row]] for row, one in zip(RELEASED, seen, strict=True))
            said = predict(number, observations_of(mechanism, number, seen))
            law[number, seen] = p / len(mechanism.parts), int((said == labels[SCORING]).sum())
    assert sum(p for p, _ in law.values()) == 1
    return law


def selected_law(mechanism, labels, scores):
    """P[released = (candidate, observed, score)]: the law of the best of K, of equals the first.

    Of outputs with the same score any may stay, in proportion to its chance; that the score is s has the chance
    f(Q(score ≤ s)) − f(Q(score < s)), with f the generating function of K.
    """
    weights, heads = mechanism.repeats.weights, mechanism.noise.heads
    base = base_law(mechanism, labels)

    def f(z):
        total = mpmath.mpf(
            0
        )  # Horner's rule: `polyval` takes coefficients in one order in mpmath 1.3, in the other from 1.4 on
        for weight in (*reversed(weights), 0):
            total = total * z + weight
        return total / WHOLE

    def exact(fraction):
        return mpmath.mpf(fraction.numerator) / fraction.denominator

    def at_most(score):
        return exact(sum(p * below_or_at(heads, score - right) for p, right in base.values()))

    law = {}
    for score in scores:
        chances = {key: p * noise_law(heads, score - right) for key, (p, right) in base.items()}
        stays = (f(at_most(score)) - f(at_most(score - 1))) / exact(sum(chances.values()))
        law |= {(*key, score): exact(p) * stays for key, p in chances.items()}
    return law, f(at_most(scores[0] - 1)), 1 - f(at_most(scores[-1]))


EVERY_LABEL = [np.array(labels) for labels in itertools.product((0, 1), repeat=4)]
NEIGHBOURS = [
    (a, b) for a, b in itertools.product(range(16), repeat=2) if (EVERY_LABEL[a] != EVERY_LABEL[b]).sum() == 1
]


@pytest.mark.parametrize(("epsilon", "mean", "shape"), [(2.0, 2.0, 1.0), (0.5, 5.0, 0.0), (6.0, 3.0, 2.0)])
def test_no_output_tells_more_than_the_certificate_says(epsilon, mean, shape):
    """Every data set of four labels, every neighbour, every output of the base; then of the whole selection."""
    mechanism = tiny(epsilon, mean, shape)
    base = [base_law(mechanism, labels) for labels in EVERY_LABEL]
    scores = range(-8, 11)
    worst_base = {"released": 0, "scoring": 0}
    for a, b in NEIGHBOURS:
        kind = "scoring" if (EVERY_LABEL[a] != EVERY_LABEL[b])[SCORING].any() else "released"
        for key, (p, right) in base[a].items():
            other, moved = base[b][key]
            for score in scores:
                ratio = (p * noise_law(mechanism.noise.heads, score - right)) / (
                    other * noise_law(mechanism.noise.heads, score - moved)
                )
                worst_base[kind] = max(worst_base[kind], ratio)
    for worst in worst_base.values():  # the larger of the two, not their sum; and each is spent to the full
        assert log(worst) <= mechanism.base().pure
        assert log(worst) >= mechanism.base().pure * (1 - 1e-6)

    laws = []
    for labels in EVERY_LABEL:
        law, below, above = selected_law(mechanism, labels, scores)
        assert abs(sum(law.values()) + below + above - 1) < mpmath.mpf(10) ** -60
        laws.append(law)
    worst = max(mpmath.log(p / laws[b][key]) for a, b in NEIGHBOURS for key, p in laws[a].items())
    assert worst <= mechanism.certificate().pure <= epsilon
    assert worst > 1.1 * mechanism.base().pure  # choosing the best does cost


@pytest.mark.parametrize("labels", [(0, 1, 1, 1), (1, 0, 1, 0)])
def test_what_is_drawn_fits_the_law_that_was_proven(labels):
    """The sampler itself, from K to the noise of the score: chi-squared over all outputs with five expected draws or more."""
    mechanism, private, entropy, count = tiny(2.0, 3.0), PrivateLabels(labels, 2), SecureEntropy(), 6000
    seen = {}
    for _ in range(count):
        run = mechanism.best(private, SCORING, predict, entropy)
        assert not run.observations[SCORING].any()
        width = mechanism.parts[run.number].observation_bytes
        key = (run.number, tuple(bytes(run.observations[row, 1 : 1 + width]) for row in RELEASED), run.right)
        seen[key] = seen.get(key, 0) + 1
    law, _, _ = selected_law(mechanism, np.array(labels), range(-20, 23))
    often = {key: float(p) * count for key, p in law.items() if float(p) * count >= 5}
    rest = count - sum(often.values())
    counts = [seen.get(key, 0) for key in often]
    assert len(often) > 40
    assert stats.chisquare([*counts, count - sum(counts)], [*often.values(), rest]).pvalue > FALSE_ALARM


# ── who sees which label: changed inputs, the same coins ──


def one_run(labels, predict, seed=3, scoring=None):
    mechanism = example()
    scoring = np.arange(0, 60, 6) if scoring is None else scoring
    return mechanism._run(PrivateLabels(labels, 10), scoring, predict, SeededEntropy(seed))


LABELS = np.random.default_rng(5).integers(0, 10, 60)


@pytest.mark.parametrize("seed", range(6))
def test_scoring_labels_are_in_the_count_and_nowhere_else(seed):
    guesses = np.arange(10)
    before = one_run(LABELS, lambda number, observations: guesses, seed)
    changed = LABELS.copy()
    changed[::6] = (changed[::6] + 1) % 10
    after = one_run(changed, lambda number, observations: guesses, seed)
    assert after.number == before.number
    np.testing.assert_array_equal(after.observations, before.observations)
    moved = int((guesses == changed[::6]).sum()) - int((guesses == LABELS[::6]).sum())
    assert after.right - before.right == moved


@pytest.mark.parametrize("seed", range(6))
def test_a_released_label_is_in_its_own_observation_and_nowhere_else(seed):
    """The score changes only through what was observed: under a `predict` that does not look, it stays."""
    for row in (1, 31, 59):
        changed = LABELS.copy()
        changed[row] = (changed[row] + 1) % 10
        before, after = (one_run(y, lambda number, observations: np.arange(10), seed) for y in (LABELS, changed))
        others = np.arange(60) != row
        np.testing.assert_array_equal(after.observations[others], before.observations[others])
        assert (after.number, after.right) == (before.number, before.right)


def test_predict_gets_observations_only_and_cannot_change_them():
    def look(number, observations):
        assert observations.shape == (60, example().observation_bytes)
        assert not observations[::6].any()
        assert example().winner(observations) == number
        with pytest.raises(ValueError, match="read-only"):
            observations[0, 0] = 1
        return np.zeros(10, dtype=int)

    one_run(LABELS, look)


@pytest.mark.parametrize("said", [np.zeros(9), np.zeros((10, 1)), np.zeros((10, 10)), np.zeros(()), np.zeros(60)])
def test_a_count_that_one_label_could_move_by_more_is_refused(said):
    with pytest.raises(InputError, match="one class is predicted for each of the 10 scoring rows"):
        one_run(LABELS, lambda number, observations: said)


@pytest.mark.parametrize("scoring", [[], [0, 0, 1], [3, 2], range(60), [-1, 4], [58, 60], [5, 5]])
def test_scoring_rows_are_some_rows_each_once(scoring):
    with pytest.raises(InputError, match="scoring rows are"):
        example().best(PrivateLabels(LABELS, 10), np.array(scoring, dtype=int), lambda n, o: o, SecureEntropy())


def test_the_best_stays_and_of_equals_the_first(monkeypatch):
    scores = iter([3, 7, 7, 5, 7])
    monkeypatch.setattr(Repeats, "draw", lambda self, entropy: 5)
    monkeypatch.setattr(TwoSidedGeometric, "sample", lambda self, entropy: next(scores))
    drawn = []

    def predict(number, observations):
        drawn.append(observations)
        return np.full(10, 10)  # never right

    best = example().best(PrivateLabels(LABELS, 10), np.arange(10), predict, SecureEntropy())
    assert best.right == 7
    assert len(drawn) == 5
    assert best.observations is drawn[1]


def test_candidates_are_drawn_uniformly():
    """Chi-squared; false alarm 1e-7."""
    mechanism, labels = example(), PrivateLabels([0, 1, 2], 10)
    seen = [
        mechanism._run(labels, np.array([0]), lambda n, o: np.zeros(1), SecureEntropy()).number for _ in range(4000)
    ]
    assert stats.chisquare(np.bincount(seen, minlength=4)).pvalue > FALSE_ALARM


# ── what anybody computes from it ──


def example(classes=10):
    return Selected.calibrated(epsilon=4.0, num_classes=classes, names=("subset", "laplace", "response", "unary"))


def drawn(mechanism, number, rows=40, seed=0):
    """A selected release in which every fourth row scored, and what the winner's own mechanism says of the others."""
    classes = mechanism.num_classes
    labels = PrivateLabels(np.random.default_rng(seed).integers(0, classes, rows), classes)
    own = mechanism.parts[number].observe_uncharged(labels, SeededEntropy(seed))
    together = mechanism.packed(number, own)
    together[::4] = 0
    return own, together


@pytest.mark.parametrize("classes", [2, 10, 300])
@pytest.mark.parametrize("number", range(4))
def test_rows_say_what_the_winners_mechanism_says_and_rows_that_scored_nothing(classes, number):
    mechanism = example(classes)
    own, together = drawn(mechanism, number)
    part, released = mechanism.parts[number], np.arange(40) % 4 > 0
    assert together.shape == (40, mechanism.observation_bytes)
    assert mechanism.valid(together)
    assert mechanism.winner(together) == number
    np.testing.assert_array_equal(mechanism.informative(together), released)
    np.testing.assert_array_equal(mechanism.evidence(together)[released], part.evidence(own)[released])
    np.testing.assert_array_equal(mechanism.values(together)[released], part.values(own)[released])
    assert not mechanism.evidence(together)[~released].any()
    np.testing.assert_allclose(mechanism.values(together)[~released], 1 / classes, rtol=1e-6)
    assert not judging_rows(mechanism, together).any()


def test_observations_that_cannot_be():
    mechanism = example()
    _, good = drawn(mechanism, 2)
    last = mechanism.observation_bytes - 1
    for row, column, value in ((1, 0, 5), (1, 0, 255), (1, 0, 1), (0, 1, 1), (0, last, 1), (1, 1, 10), (1, 2, 7)):
        bad = good.copy()
        bad[row, column] = value
        assert not mechanism.valid(bad), (row, column, value)
    two = np.concatenate([good, drawn(mechanism, 1)[1]])
    assert not mechanism.valid(two)
    for rows in (two, good[::4]):
        with pytest.raises(InputError, match="which candidate won"):
            mechanism.winner(rows)
    assert mechanism.valid(good[:0])


def test_what_it_does_not_have():
    mechanism = example()
    _, together = drawn(mechanism, 0)
    assert mechanism.trust == "central"
    assert BY_NAME["selected"] is Selected
    assert "selected" not in NAMES
    with pytest.raises(NoJudgeError, match="too high"):
        judge_of(mechanism, together)
    with pytest.raises(InputError, match="cannot be joined"):
        Joint(10, (mechanism,))
    assert mechanism.information() == min(part.information() for part in mechanism.parts)
    assert "secret number of runs" in mechanism.describe()


@given(st.floats(0.01, 32), st.integers(2, 40), st.lists(st.sampled_from(list(PURE)), min_size=2, max_size=20),
       st.floats(1.01, 60), st.floats(0, 4))  # fmt: skip
@settings(max_examples=40)
def test_description_round_trip(epsilon, classes, names, mean, shape):
    mechanism = Selected.calibrated(
        epsilon=epsilon, num_classes=classes, names=names, repeats=Repeats(mean=mean, shape=shape)
    )
    again = mechanism_from_json(json.loads(json.dumps(mechanism.to_json())))
    assert again == mechanism
    assert again.certificate() == mechanism.certificate()
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.num_classes = 3


RESPONSE = {"name": "response", "parameters": {"other": "12345678901234567"}}
GOOD = {"candidates": [RESPONSE, RESPONSE], "repeats": {"mean": 10.0, "shape": 1.0}, "score": {"heads": "123456"}}


def nested():
    return {"name": "selected", "parameters": GOOD}


@pytest.mark.parametrize(
    "change",
    [
        {"candidates": None}, {"candidates": {}}, {"candidates": "all"}, {"candidates": []}, {"candidates": [RESPONSE]},
        {"candidates": [RESPONSE] * 256}, {"candidates": [RESPONSE] * 100_000}, {"candidates": [RESPONSE, None]},
        {"candidates": [RESPONSE, {}]}, {"candidates": [RESPONSE, {"name": "response"}]},
        {"candidates": [RESPONSE, {"name": "response", "parameters": {}}]},
        {"candidates": [RESPONSE, {"name": "response", "parameters": {"other": "0"}}]},
        {"candidates": [RESPONSE, {"name": ["response"], "parameters": {"other": "5"}}]},
        {"candidates": [RESPONSE, {"name": "laplace", "parameters": {"scale": 10**400}}]},
        {"candidates": [RESPONSE, {"name": "laplace", "parameters": {"scale": float("nan")}}]},
        *({"candidates": [RESPONSE, {"name": name, "parameters": {}}]} for name in ("none", "joint", "pate", "prior", "")),
        {"candidates": [RESPONSE, {"name": "gaussian", "parameters": {"sigma": 3.0, "delta": 1e-5}}]},
        {"candidates": [RESPONSE, nested()]},
        {"repeats": None}, {"repeats": []}, {"repeats": {}}, {"repeats": {"mean": 10.0}}, {"repeats": {"mean": 1.0, "shape": 1.0}},
        {"repeats": {"mean": 1e9, "shape": 1.0}}, {"repeats": {"mean": 10**400, "shape": 1.0}},
        {"repeats": {"mean": float("inf"), "shape": 1.0}}, {"repeats": {"mean": 10.0, "shape": -1.0}},
        {"repeats": {"mean": "10", "shape": 1.0}},
        {"score": None}, {"score": "5"}, {"score": {}}, {"score": {"heads": "0"}}, {"score": {"heads": str(2**64)}},
        {"score": {"heads": "many"}}, {"score": {"heads": 1.5}}, {"score": {"heads": True}}, {"score": {"heads": "9" * 5000}},
    ],
)  # fmt: skip
def test_descriptions_that_another_party_wrote(change):
    assert mechanism_from_json({"name": "selected", "num_classes": 10, "parameters": GOOD})
    with pytest.raises(InputError):
        mechanism_from_json({"name": "selected", "num_classes": 10, "parameters": {**GOOD, **change}})


def test_only_pure_candidates_of_one_number_of_classes():
    good = example()
    for parts in (
        (NoPrivacy(10), NoPrivacy(10)),
        (good.parts[0], Gaussian.calibrated(epsilon=1.0, num_classes=10, delta=1e-5)),
        (good, good),
    ):
        with pytest.raises(InputError, match="pure ε"):
            dataclasses.replace(good, parts=parts)
    with pytest.raises(InputError, match="numbers of classes"):
        dataclasses.replace(good, parts=(good.parts[0], example(3).parts[0]))
    for count in (0, 1, 256):
        with pytest.raises(InputError, match="2 to 255"):
            dataclasses.replace(good, parts=good.parts[:1] * count)
    with pytest.raises(InputError, match="response, subset, unary, laplace; got 'gaussian'"):
        Selected.calibrated(epsilon=1.0, num_classes=10, names=("subset", "gaussian"))
    with pytest.raises(InputError, match="at least 1e-06"):
        Selected.calibrated(epsilon=1.5e-6, num_classes=10, names=("subset", "subset"))
