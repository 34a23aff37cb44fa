"""The paper's interval from fair canaries: those with a wrong label, and their true labels."""

import json

import numpy as np

from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit_paper
from labeldp.data.bundled import load
from labeldp.entropy import SeededEntropy
from labeldp.reproduce.memorized import interval, memorized, read


def planted(folder, count=200, sure=0.9):
    """A run whose model is `sure` of what was planted."""
    labels = load("digits").labels
    canaries = Canaries.draw(count, rows=len(labels), num_classes=10, candidates=3, entropy=SeededEntropy(0))
    canaries.save(folder / "canaries.npz")
    probabilities = np.full((len(labels), 10), (1 - sure) / 9, np.float32)
    probabilities[canaries.rows, canaries.planted] = sure
    np.save(folder / "probabilities.npy", probabilities)
    return canaries, labels.reveal()


def test_wrong_canaries_with_their_true_labels(tmp_path):
    canaries, true = planted(tmp_path)
    found = memorized(tmp_path, "digits", None)
    wrong = canaries.planted != true[canaries.rows]
    assert 150 < wrong.sum() < 200
    assert found["true_label"].tolist() == true[canaries.rows][wrong].tolist()
    assert found["canary_label"].tolist() == canaries.planted[wrong].tolist()
    assert (found["confidences"][np.arange(wrong.sum()), found["canary_label"]] == np.float32(0.9)).all()
    assert (tmp_path / "memorized.npz").stat().st_mode & 0o077 == 0  # it knows labels
    said = interval([found])
    assert said == {"low": audit_paper(**_renamed(found)).epsilon_low, "high": None, "canaries": int(wrong.sum())}
    assert said["low"] > 3
    both = interval([found, found])
    assert both["canaries"] == 2 * wrong.sum()
    assert both["low"] > said["low"]


def _renamed(found):
    return {name: found[name] for name in ("confidences", "true_label", "canary_label")}


def test_what_the_command_line_makes_of_the_file(tmp_path, cli):
    planted(tmp_path)
    said = interval([memorized(tmp_path, "digits", None)])
    code, out, _ = cli("audit", tmp_path / "memorized.npz", "--method", "paper", "--json")
    assert code == 0
    assert json.loads(out)["epsilon_low"] == said["low"]


def test_written_once_and_where_there_is_something_to_write(tmp_path):
    assert memorized(tmp_path, "digits", None) is None
    planted(tmp_path)
    assert memorized(tmp_path, "cifar10", tmp_path) is None  # whose files are not here
    first = memorized(tmp_path, "digits", None)
    (tmp_path / "canaries.npz").unlink()
    assert memorized(tmp_path, "digits", None).keys() == first.keys() == read(tmp_path / "memorized.npz").keys()


def test_given_that_it_is_wrong_a_fair_canary_is_uniform_among_the_wrong_labels():
    """χ² over (planted − true) mod 10 of 20,000 canaries, 8 degrees of freedom: above 34.8 with probability below 3e-5."""
    true = np.random.default_rng(1).integers(0, 3, 20_000)  # far from uniform itself
    canaries = Canaries.draw(20_000, rows=20_000, num_classes=10, candidates=2, entropy=SeededEntropy(5))
    away = (canaries.planted - true[canaries.rows]) % 10
    counts = np.bincount(away, minlength=10)[1:]
    expected = counts.sum() / 9
    assert ((counts - expected) ** 2 / expected).sum() < 34.8
