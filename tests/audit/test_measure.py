"""From planted labels to a bound: what attackers see, what they prove, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import NoPrivacy, PrivateLabels, SeededEntropy
from labeldp.audit.attack import CalibratedAttack, ModelAttack, NeighbourAttack, ReleaseAttack, guess
from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit, audit_paper, check_planted_here
from labeldp.audit.thresholds import Bonferroni
from labeldp.errors import InputError
from labeldp.files.predictions import checked_probabilities
from labeldp.mechanisms.plan import calibrate
from labeldp.release.prior import PriorOrigin

ROWS = 3000


def planted(mechanism, candidates, seed=0, count=1000, rows=ROWS):
    """A release of labels with canaries among them, without a ledger's files."""
    classes = mechanism.num_classes
    entropy = SeededEntropy(seed)
    canaries = Canaries.draw(count, rows=rows, num_classes=classes, candidates=candidates, entropy=entropy)
    labels = canaries.plant(PrivateLabels(np.random.default_rng(seed).integers(0, classes, rows), classes))
    header = {"ids": None, "first_row": 0, "data_set": "d", "label_names": None, "insecure": None, "label": None}
    return canaries, labeldp.Release(header, mechanism, None, mechanism.observe_uncharged(labels, entropy), "0")


@pytest.mark.parametrize(("epsilon", "classes", "share"), [(2, 10, 0.9), (4, 10, 0.9), (4, 100, 0.88), (8, 10, 0.75)])
def test_an_attacker_with_the_release_proves_most_of_the_certificate(epsilon, classes, share):
    """Randomized response, all classes candidates; the issue's figures are means of 100 releases, see benchmarks/audit.py."""
    mechanism = calibrate("response", epsilon=epsilon, num_classes=classes)
    bounds = []
    for seed in range(4):
        canaries, release = planted(mechanism, classes, seed)
        result = audit(None, canaries, release=release)
        assert (result.attack, result.certificate) == ("release", release.mechanism.guarantee().epsilon)
        bounds.append(result.epsilon_low)
    assert np.mean(bounds) > share * epsilon
    assert max(bounds) <= epsilon  # false alarm of the whole test below 4 · 5%, but seeded


@pytest.mark.parametrize("name", ["response", "subset", "unary", "laplace", "gaussian"])
def test_no_mechanism_is_refuted(name):
    """100 seeded audits at 95%: more than 12 above the certificate would happen once in 1,000 even if 5% were exact."""
    delta = 1e-5 if name == "gaussian" else None
    mechanism = calibrate(name, epsilon=1.0, num_classes=4, delta=delta)
    above = 0
    for seed in range(100):
        canaries, release = planted(mechanism, 4, seed, count=200, rows=400)
        result = audit(None, canaries, release=release, delta=delta or 0.0)
        above += result.epsilon_low > mechanism.guarantee().epsilon
    assert above <= 12


def test_a_model_that_memorised_is_found_and_one_that_did_not_is_not():
    canaries, _ = planted(calibrate("response", epsilon=1, num_classes=5), 2)
    rng = np.random.default_rng(0)
    blind = rng.dirichlet(np.ones(5), ROWS)
    assert audit(blind, canaries).epsilon_low < 0.5
    told = blind.copy()
    told[canaries.rows, canaries.planted] += 5
    told /= told.sum(axis=1, keepdims=True)
    result = audit(told, canaries)
    assert result.epsilon_low > 5
    assert result.assumption.startswith("none")
    assert result.correct == result.guesses
    assert audit(np.log(told) + 3, canaries, logits=True).epsilon_low == result.epsilon_low
    assert json.loads(json.dumps(result.to_json()))["epsilon_high"] is None
    assert "measured ε ≥" in result.summary()


def test_calibration_finds_what_plain_confidence_hides():
    """Features say a lot about the label, memory a little: only against a reference does the little show."""
    rng = np.random.default_rng(1)
    canaries, _ = planted(calibrate("response", epsilon=1, num_classes=5), 2, count=1000)
    reference = rng.dirichlet(np.full(5, 0.2), ROWS)
    logits = np.log(reference + 1e-9)
    logits[canaries.rows, canaries.planted] += 1
    model = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    plain = audit(model, canaries).epsilon_low
    calibrated = audit(model, canaries, attacks=[ModelAttack(model), CalibratedAttack(model, reference)])
    assert calibrated.attack == "calibrated"
    assert calibrated.epsilon_low > plain + 2
    assert [look.attack for look in calibrated.looks] == ["model", "calibrated"]
    assert all(look.alpha == pytest.approx(0.05 / 2 / 4) for look in calibrated.looks)  # attacks × thresholds


def test_neighbours_calibrate_too():
    rng = np.random.default_rng(2)
    canaries, _ = planted(calibrate("response", epsilon=1, num_classes=3), 2, count=500, rows=1500)
    groups = rng.integers(0, 30, 1500)
    features = rng.normal(size=(30, 4))[groups] * 10 + rng.normal(size=(1500, 4))
    logits = rng.normal(size=(30, 3))[groups] * 3
    logits[canaries.rows, canaries.planted] += 1.5
    model = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    attack = NeighbourAttack(model, features.astype(np.float32), 5)
    assert audit(model, canaries, attacks=[attack]).epsilon_low > audit(model, canaries).epsilon_low + 1
    naive = []
    for row in canaries.rows[:20]:
        flat = (features - features.mean(axis=0)) / features.std(axis=0)
        order = np.argsort(((flat - flat[row]) ** 2).sum(axis=1))
        naive.append(np.log(model[row]) - np.log(model[order[order != row][:5]].mean(axis=0)))
    np.testing.assert_allclose(attack.scores(canaries.rows[:20]), naive, rtol=1e-5, atol=1e-6)


def test_ties_abstain():
    scores = np.array([[0.2, 0.2, 0.6], [0.1, 0.5, 0.4]])
    made = guess(ModelAttack(scores), np.arange(2), np.array([[0, 1], [0, 1]]))
    assert made.sureness[0] == 0
    assert made.choice[1] == 1
    flat = np.full((ROWS, 5), 0.2)
    canaries, _ = planted(calibrate("response", epsilon=1, num_classes=5), 2)
    result = audit(flat, canaries)
    assert (result.epsilon_low, result.guesses, result.abstained) == (0, 0, 1000)


def test_a_subset_release_proves_something_with_many_candidates():
    """A set of two labels ties them; guessing one is right with probability ½·P[set holds it], which proves log 4.3 of ε = 2."""
    mechanism = calibrate("subset", epsilon=2, num_classes=10)
    assert mechanism.size == 2
    bounds = []
    for seed in range(4):
        canaries, release = planted(mechanism, 10, seed)
        result = audit(None, canaries, release=release)
        first = np.take_along_axis(
            canaries.candidates,
            np.argsort(canaries.candidates != canaries.planted[:, None], axis=1, kind="stable"),
            axis=1,
        )
        listed = replace(canaries, candidates=first)  # the planted label first: that must not help
        assert audit(None, listed, release=release) == result
        bounds.append(result.epsilon_low)
    assert 1.1 < np.mean(bounds) < np.log(4.33)


def test_sureness_is_the_log_odds_of_being_right_above_chance():
    table = np.random.default_rng(3).dirichlet(np.ones(6), 50)
    canaries = Canaries.draw(50, rows=50, num_classes=6, candidates=4, entropy=SeededEntropy(1))
    made = guess(ModelAttack(table), canaries.rows, canaries.candidates)
    for row, candidates, choice, sure in zip(
        canaries.rows, canaries.candidates, made.choice, made.sureness, strict=True
    ):
        posterior = table[row, candidates] / table[row, candidates].sum()
        assert posterior.argmax() == choice
        assert sure == pytest.approx(np.log(posterior[choice] / (1 - posterior[choice])) + np.log(3))


@pytest.mark.parametrize(("name", "delta"), [("laplace", None), ("gaussian", 1e-5)])
def test_who_sees_additive_noise_is_surer_of_some_guesses(name, delta):
    """Seeded; four looks at a quarter of α each prove more than one at α (1.57 against 1.13 for Laplace at ε = 2)."""
    looks, once = [], []
    for seed in range(4):
        canaries, release = planted(calibrate(name, epsilon=2, num_classes=10, delta=delta), 2, seed)
        found = audit(None, canaries, release=release, delta=delta or 0.0)
        looks.append(found.epsilon_low)
        assert found.looks[0].alpha == pytest.approx(0.05 / 4)
        once.append(audit(None, canaries, release=release, delta=delta or 0.0, thresholds=Bonferroni((1,))).epsilon_low)
    assert np.mean(looks) > 1.15 * np.mean(once)


@pytest.mark.parametrize("name", ["response", "subset", "unary"])
def test_who_sees_a_class_or_a_set_looks_once(name):
    canaries, release = planted(calibrate(name, epsilon=2, num_classes=10), 2)
    assert audit(None, canaries, release=release).looks[0].alpha == pytest.approx(0.05)


def test_a_confidence_is_printed_as_it_is():
    canaries, release = planted(calibrate("response", epsilon=1, num_classes=5), 2)
    assert "(99.9% confidence" in audit(None, canaries, release=release, confidence=0.999).summary()
    assert "(95% confidence" in audit(None, canaries, release=release).summary()


def test_few_canaries_in_the_papers_way_are_said_in_the_result():
    """Warnings are errors in these tests: none is raised."""
    table = np.full((5, 4), 0.25)
    found = audit_paper(table, np.zeros(5, int), np.ones(5, int))
    few, alone = found.warnings
    assert "fewer than 10" in few
    assert "for you alone" in alone


def test_gaussian_releases_are_audited_at_their_delta_and_others_are_not_gaussian():
    canaries, release = planted(calibrate("gaussian", epsilon=2, num_classes=4, delta=1e-5), 2)
    strict = audit(None, canaries, release=release)
    assert strict.delta == 1e-5
    assert audit(None, canaries, release=release, delta=1e-5) == strict
    curve = audit(None, canaries, release=release, method="gaussian")
    assert "Gaussian" in curve.assumption
    assert strict.epsilon_low <= release.mechanism.guarantee().epsilon
    other, response = planted(calibrate("response", epsilon=2, num_classes=4), 2)
    with pytest.raises(InputError, match="Gaussian noise only"):
        audit(None, other, release=response, delta=1e-5, method="gaussian")
    with pytest.raises(InputError, match="Gaussian noise only"):
        audit(np.full((ROWS, 4), 0.25), other, delta=1e-5, method="gaussian")


@pytest.mark.parametrize("same_rows", [True, False])
@pytest.mark.parametrize("seeded", [None, "a known seed"])
def test_the_delta_is_that_of_the_statement_that_the_audit_stands_beside(same_rows, seeded):
    """A release of pure noise, with a Gaussian release behind its public prior: its certificate has the Gaussian's δ."""
    canaries, pure = planted(calibrate("response", epsilon=2, num_classes=4), 2)
    origin = PriorOrigin(("ab" * 32,), epsilon=1.0, delta=1e-5, same_rows=same_rows)
    header = pure.header | {"public_prior": origin.to_json(), "insecure": seeded}
    release = labeldp.Release(header, pure.mechanism, None, pure.observations, "0")
    result = audit(np.full((ROWS, 4), 0.25), canaries, release=release, from_release=True)
    assert result.delta == release.promise().delta == 1e-5
    assert result.certificate == (None if seeded else release.guarantee.epsilon)
    alone = audit(None, canaries, release=pure)
    assert (alone.delta, alone.certificate) == (0.0, pure.guarantee.epsilon)
    assert result.epsilon_low < alone.epsilon_low
    stranger = audit(np.full((ROWS, 4), 0.25), canaries, release=release, from_release=False)
    assert (stranger.delta, stranger.certificate) == (1e-5, None)
    with pytest.raises(InputError, match="δ = 1e-05"):
        audit(None, canaries, release=release, delta=0.0)


def test_of_plain_labels_nothing_is_stated():
    canaries, release = planted(NoPrivacy(4), 2)
    assert (audit(None, canaries, release=release).delta, audit(None, canaries, release=release).certificate) == (
        0,
        None,
    )
    assert audit(None, canaries, release=release, delta=1e-5).delta == 1e-5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((5, 3)), "no distribution"),
        (np.array([[2.0, -1.0]]), "`logits=True`"),
        (np.array([[0.5, np.nan]]), "row 0 .* NaN"),
        (np.ones(5), "one column a class"),
        (np.array([["a", "b"]]), "one column a class"),
    ],
)
def test_what_is_no_probability(values, message):
    with pytest.raises(InputError, match=message):
        checked_probabilities(values)


def test_canaries_of_other_data(tmp_path):
    canaries, release = planted(calibrate("response", epsilon=1, num_classes=5), 2)
    with pytest.raises(InputError, match="ask for all rows"):
        audit(np.full((10, 5), 0.2), canaries)
    with pytest.raises(InputError, match="beyond the 3 classes"):
        audit(np.full((ROWS, 3), 1 / 3), canaries)
    with pytest.raises(InputError, match="needs the model's probabilities"):
        audit(None, canaries)
    other = labeldp.Release(release.header | {"first_row": 10**6}, release.mechanism, None, release.observations, "0")
    with pytest.raises(InputError, match="none of the canaries"):
        audit(None, canaries, release=other)
    assert ReleaseAttack(release).scores(np.array([-1]))[0].tolist() == [0] * 5
    loose, gaussian = planted(calibrate("gaussian", epsilon=2, num_classes=4, delta=1e-5), 2)
    for other_delta in (0.0, 1e-9, 1e-4):
        with pytest.raises(InputError, match="at another one"):
            audit(None, loose, release=gaussian, delta=other_delta)
    for wrong in (-1e-5, 1.0, float("nan")):
        with pytest.raises(InputError, match="delta must be"):
            audit(np.full((ROWS, 5), 0.2), canaries, delta=wrong)
    few, release = planted(calibrate("response", epsilon=1, num_classes=5), 2, count=5)
    assert "next to nothing" in audit(None, few, release=release).summary()


# ── the owner's commands, two parties ──


def test_plant_release_audit(tmp_path, cli):
    rng = np.random.default_rng(0)
    pq.write_table(
        pa.table({"uid": [f"u{i}" for i in range(ROWS)], "y": rng.integers(0, 4, ROWS)}), tmp_path / "y.parquet"
    )
    common = ("--label", "y", "--classes", "4", "--id", "uid")
    code, out, err = cli("canaries", "plant", tmp_path / "y.parquet", *common, "--count", "500", "--candidates", "4",
                         "--out", tmp_path / "p.parquet", "--secret", tmp_path / "c.npz")  # fmt: skip
    assert code == 0
    assert "--canary-share 0.166667" in out
    assert "16.7% of the rows are canaries" in err
    assert cli("release", tmp_path / "p.parquet", *common, "--epsilon", "3", "--mechanism", "response", "--ledger", tmp_path / "l",
               "--shuffle", "--out", tmp_path / "r.parquet")[0] == 0  # fmt: skip
    release = labeldp.Release.load(tmp_path / "r.parquet")
    table = np.exp(release.evidence())
    table /= table.sum(axis=1, keepdims=True)  # a model that learned its observations by heart
    scores = pa.table({"id": release.ids.tolist(), "probabilities": table.tolist()})
    pq.write_table(scores, tmp_path / "s.parquet")
    code, out, err = cli(
        "audit", tmp_path / "s.parquet", "--canaries", tmp_path / "c.npz", "--release", tmp_path / "r.parquet", "--json"
    )
    assert code == 0, err
    result = json.loads(out)
    assert (
        2 < result["epsilon_low"] < 3.6
    )  # above 3 once in twenty, as the bound allows; above 3.6 (4.5 standard errors more) never
    assert [look["attack"] for look in result["looks"]] == ["model", "release"]
    assert result["epsilon_high"] is None
    code, out, _ = cli(
        "audit", tmp_path / "s.parquet", "--canaries", tmp_path / "c.npz", "--reference", tmp_path / "s.parquet"
    )
    assert code == 0
    assert "assumes none" in out
    assert cli("canaries", "plant", tmp_path / "y.parquet", *common, "--count", "300", "--wrong-only", "--out", tmp_path / "w.parquet",
               "--secret", tmp_path / "w.npz")[0] == 0  # fmt: skip
    code, out, err = cli(
        "audit", tmp_path / "s.parquet", "--canaries", tmp_path / "w.npz", "--method", "paper", "--json"
    )
    assert (code, json.loads(out)["method"]) == (0, "paper")
    assert "for you alone" in " ".join(json.loads(out)["warnings"])
    code, out, _ = cli("audit", tmp_path / "s.parquet", "--canaries", tmp_path / "w.npz")
    assert "for you alone" in out
    alone = ("audit", "--canaries", tmp_path / "c.npz", "--release", tmp_path / "r.parquet")
    code, out, _ = cli(*alone, "--json")
    assert [look["attack"] for look in json.loads(out)["looks"]] == ["release"]
    for arguments, message in (
        (("audit", tmp_path / "s.parquet", "--canaries", tmp_path / "c.npz", "--method", "paper"), "--wrong-only"),
        (("audit", tmp_path / "s.parquet"), "--canaries is missing"),
        (("audit", "--canaries", tmp_path / "c.npz"), "needs the model's probabilities, a release, or both"),
        ((*alone, "--reference", tmp_path / "s.parquet"), "calibrate a model's probabilities"),
        ((*alone, "--figure", tmp_path / "f.svg"), "nothing to draw"),
        (("audit", "--method", "paper"), "looks at a model"),
        (("audit", tmp_path / "s.parquet", "--canaries", tmp_path / "w.npz", "--method", "paper", "--delta", "1e-5"), "are for the others"),
        (("canaries", "plant", tmp_path / "y.parquet", *common, "--wrong-only", "--candidates", "3", "--out", tmp_path / "v.parquet",
          "--secret", tmp_path / "v.npz"), "leave out --candidates"),
        (("canaries", "plant", tmp_path / "y.parquet", *common, "--candidates", "0", "--out", tmp_path / "v.parquet",
          "--secret", tmp_path / "v.npz"), "--candidates is from 2"),
        (("audit", tmp_path / "y.parquet", "--canaries", tmp_path / "c.npz"), "no file of probabilities"),
        (("audit", tmp_path / "c.npz", "--method", "paper"), "confidences, true_label and canary_label"),
        (("audit", tmp_path / "s.parquet", "--canaries", tmp_path / "s.parquet"), "holds no canaries"),
        (("audit", tmp_path / "s.parquet", "--canaries", tmp_path / "c.npz", "--method", "magic"), "one-run or gaussian"),
    ):  # fmt: skip
        code, out, err = cli(*arguments)
        assert (code, out) == (2, ""), message
        assert message in err


@pytest.mark.parametrize("candidates", [2, 10])
@pytest.mark.parametrize("name", ["response", "subset", "unary", "laplace", "gaussian"])
def test_canaries_of_another_planting_are_refused(name, candidates):
    """Nothing in a release says which canaries it has; but what it says of their labels does. Right ones pass but once in 1e9."""
    mechanism = calibrate(name, epsilon=6, num_classes=10, delta=1e-5)
    canaries, release = planted(mechanism, candidates, 0)
    others, _ = planted(mechanism, candidates, 1)
    assert audit(None, canaries, release=release, delta=mechanism.guarantee().delta).warnings == ()
    with pytest.raises(InputError, match="not planted in this release"):
        audit(None, others, release=release, delta=mechanism.guarantee().delta)


@pytest.mark.parametrize(("name", "classes", "candidates"), [("response", 2, 2), ("subset", 10, 4), ("laplace", 5, 5)])
@pytest.mark.parametrize("epsilon", [1, 8])
def test_right_canaries_are_not_refused(name, classes, candidates, epsilon):
    """300 plantings of 60: at ε = 8 a single flip is six standard deviations, and happens in one planting of fifty."""
    mechanism = calibrate(name, epsilon=epsilon, num_classes=classes)
    for seed in range(300):
        canaries, release = planted(mechanism, candidates, seed, count=60, rows=100)
        places = np.asarray(canaries.rows)
        assert check_planted_here(release, canaries, places) == []  # a doubt in one of 1e4 at most: 1,800 looks, seeded


def test_a_few_doubtful_canaries_are_warned_of():
    """Too few to refuse, and yet unlikely."""
    mechanism = calibrate("response", epsilon=2, num_classes=2)
    for count in range(10, 200, 2):
        others, _ = planted(mechanism, 2, 1, count=count)
        _, release = planted(mechanism, 2, 0, count=count)
        try:
            notes = audit(None, others, release=release).warnings
        except InputError:
            break
        if any("planted in *this* release" in note for note in notes):
            return
    pytest.fail("refused before it was doubted, or neither")


def test_every_attack_is_named():
    canaries, release = planted(calibrate("response", epsilon=2, num_classes=5), 2)
    said = audit(np.full((ROWS, 5), 0.2), canaries, release=release, from_release=True).summary()
    assert "each attack: model ≥ 0; release ≥" in said
    assert "5% shared by 2 attacks" in said


def test_attacks_of_one_audit_apart_still_share_the_doubt():
    canaries, release = planted(calibrate("response", epsilon=2, num_classes=5), 2)
    both = audit(np.full((ROWS, 5), 0.2), canaries, release=release, from_release=True)
    apart = both.each()
    assert list(apart) == ["model", "release"]
    assert {(one.confidence, one.shared_by) for one in apart.values()} == {(0.95, 2)}
    assert apart["release"].to_json() | {"looks": None} == both.to_json() | {"looks": None}
    assert apart["release"].epsilon_low < audit(None, canaries, release=release).epsilon_low
