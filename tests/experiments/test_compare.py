"""Every model and every reading on one table: what is fitted, that nothing is done twice, what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from labeldp.data.public import load_table
from labeldp.errors import InputError
from labeldp.experiments import compare
from labeldp.experiments.compare import MODELS, SCORES, Comparing, compare_tables, led_back, true_scores
from labeldp.files.summary import TablesSummary
from labeldp.mechanisms import RandomizedResponse
from labeldp.release.release import Release

pytest.importorskip("lightgbm", reason='LightGBM is an extra: pip install "labeldp[lightgbm]"')


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Breast cancer at ε = 2 with all models."""
    folder = tmp_path_factory.mktemp("compare") / "run"
    told = []
    found = compare_tables(Comparing("cancer", 2.0, 1), folder, threads=1, told=lambda *said: told.append(said))
    return folder, found, told


def test_every_model_in_every_reading(run):
    folder, found, told = run
    assert isinstance(found, TablesSummary)
    pairs = [(fit.model, fit.reading) for fit in found.fits]
    whole = [(model, reading) for model in MODELS for reading in ("naive", "inverted", "response", "laplace")]
    assert pairs == [*whole, ("lightgbm-stopped", "naive"), ("lightgbm-stopped", "inverted")]
    assert [(done, of) for _, done, of in told] == [(number, 10) for number in range(11)]
    assert {name: one.epsilon for name, one in found.certificates.items()} == pytest.approx(
        {"response": 2.0, "laplace": 2.0}, rel=1e-6
    )
    assert max(one.epsilon for one in found.certificates.values()) <= 2.0
    for fit in found.fits:
        assert fit.roc_auc > 0.7  # it is an easy table
        assert fit.cpu_seconds > 0
        assert set(fit.estimates) == set(SCORES)
        assert fit.estimates["roc_auc"].rows == found.rows_tested == 171
    assert found.fit("linear", "naive").cpu_seconds == found.fit("linear", "inverted").cpu_seconds
    assert found.fit("linear", "subset") is None
    assert json.loads((folder / "summary.json").read_text())["kind"] == "tables"


def test_a_mechanism_releases_once_in_a_ledger_of_its_own(run):
    folder, _, _ = run
    for name in ("response", "laplace"):
        releases = sorted((folder / name / "labels.ledger.releases").glob("*.parquet"))
        assert sorted(len(Release.load(path)) for path in releases) == [171, 398]


def test_what_is_finished_is_read(run, monkeypatch):
    folder, found, _ = run
    monkeypatch.setattr(compare, "load_table", None)
    assert compare_tables(Comparing("cancer", 2.0, 1), folder) == found
    for other in (Comparing("cancer", 1.0, 1), Comparing("digits", 2.0, 1), Comparing("cancer", 2.0, 1, ("linear",))):
        with pytest.raises(InputError, match="holds another run"):
            compare_tables(other, folder)


def test_clean_labels(tmp_path):
    found = compare_tables(Comparing("cancer", None, 0, ("linear", "lightgbm")), tmp_path, threads=1)
    assert [(fit.model, fit.reading) for fit in found.fits] == [
        ("linear", "clean"),
        ("lightgbm", "naive"),
        ("lightgbm", "clean"),
        ("lightgbm-stopped", "naive"),
    ]
    assert found.certificates["none"].epsilon is None
    assert all(not fit.estimates for fit in found.fits)


def test_more_classes_have_k_subset(tmp_path, monkeypatch):
    """On a fifth of the digits, so that it takes a second."""
    table = load_table("digits")
    few = replace(table, plain=table.plain[:300], labels=table.labels.slice(0, 300))
    monkeypatch.setattr(compare, "load_table", lambda *_: few)
    found = compare_tables(Comparing("digits", 4.0, 0, ("linear",)), tmp_path, threads=1)
    assert [fit.reading for fit in found.fits] == ["naive", "inverted", "response", "subset"]
    assert min(fit.roc_auc for fit in found.fits) > 0.8


def test_leading_back_undoes_the_channel():
    """With a = P(o = 1 | 1) and b = P(o = 1 | 0): p = (m − b)/(a − b), by hand."""
    law = RandomizedResponse.calibrated(epsilon=1.0, num_classes=2).law()
    a, b = np.e / (np.e + 1), 1 / (np.e + 1)
    p = np.array([0.1, 0.5, 0.9])
    m = b + (a - b) * p
    np.testing.assert_allclose(led_back(np.stack((1 - m, m), axis=1), law)[:, 1], p, rtol=1e-6)
    sure = led_back(np.array([[1.0, 0.0]]), law)
    assert 0 < sure[0, 1] < 2e-6
    truth = np.random.default_rng(0).dirichlet(np.ones(5), 20)
    law = RandomizedResponse.calibrated(epsilon=1.0, num_classes=5).law()
    np.testing.assert_allclose(led_back(law.mean_other + law.gap * truth, law), truth, atol=2e-6)


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_on_true_labels_are_scikit_learns(classes):
    random = np.random.default_rng(classes)
    y = random.integers(0, classes, 300)
    p = random.dirichlet(np.ones(classes), 300).round(2) + 0.01  # with ties
    p /= p.sum(axis=1, keepdims=True)
    found = dict(zip(SCORES, true_scores(y, p), strict=True))
    given = (y, p[:, 1]) if classes == 2 else (y, p)
    auc = roc_auc_score(*given) if classes == 2 else roc_auc_score(*given, multi_class="ovr")
    one_hot = (y == 1) if classes == 2 else np.eye(classes)[y]
    wanted = {
        "roc_auc": auc,
        "log_loss": log_loss(y, p),
        "average_precision": average_precision_score(one_hot, given[1]),
    }
    assert found == pytest.approx(wanted)
    with pytest.raises(InputError, match="a ranking cannot be scored"):
        true_scores(np.zeros_like(y), p)


def test_a_model_is_named_once():
    with pytest.raises(InputError, match="each once; got linear, linear"):
        Comparing("cancer", 1.0, 0, ("linear", "linear"))


def test_the_command_shows_a_line_a_fit(run, cli):
    folder, _, _ = run
    code, out, err = cli("compare", "--dataset", "cancer", "--epsilon", 2, "--seed", 1, "--out", folder)
    assert code == 0, err
    assert out.startswith("cancer, ε = 2: 398 rows, judged by the true labels of 171 others")
    assert len(out.splitlines()) == 16  # the last says that it was found
    assert "AUC by released labels" in out
    code, out, _ = cli("compare", "--dataset", "cancer", "--epsilon", 2, "--seed", 1, "--out", folder, "--json")
    assert json.loads(out)["dataset"] == "cancer"
    code, _, err = cli("report", folder, "--out", folder / "page.html")
    assert (code, "is a comparison on a public table" in err) == (2, True)
