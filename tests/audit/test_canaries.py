import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from labeldp import Ledger, PrivateLabels, SecureEntropy, SeededEntropy
from labeldp.audit.canaries import Canaries
from labeldp.audit.plant import plant_file
from labeldp.errors import InputError, RefusedError
from labeldp.release.classes import Classes
from labeldp.release.files import ReleaseOptions, release_file


def drawn(count=500, rows=2000, classes=10, candidates=2, seed=0):
    return Canaries.draw(count, rows=rows, num_classes=classes, candidates=candidates, entropy=SeededEntropy(seed))


@pytest.mark.parametrize(("classes", "candidates"), [(2, 2), (10, 2), (10, 10), (100, 7)])
def test_a_draw_is_what_it_says(classes, candidates):
    canaries = drawn(classes=classes, candidates=candidates)
    assert canaries.candidates.shape == (500, candidates)
    assert len(np.unique(canaries.rows)) == 500
    assert canaries.rows.max() < 2000
    assert all(len(set(row)) == candidates for row in canaries.candidates.tolist())


def test_draws_are_uniform_and_independent():
    """Chi-square statistics, seeded; 99.99% quantiles."""
    from scipy.stats import chi2

    canaries = drawn(20_000, rows=20_000, classes=5, candidates=3)
    for counts in (
        np.bincount(canaries.planted, minlength=5),
        np.bincount(canaries.candidates.ravel(), minlength=5),
        np.bincount((canaries.candidates == canaries.planted[:, None]).argmax(axis=1), minlength=3),
        np.bincount(canaries.candidates[:, 0] * 5 + canaries.candidates[:, 1])[[1, 2, 3, 4, 5, 7, 8, 9, 10, 11]],
    ):
        expected = counts.sum() / len(counts)
        assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.9999, len(counts) - 1)
    chosen = drawn(500, rows=2000).rows
    assert abs(chosen.mean() - 1000) < 5 * 577 / np.sqrt(500)


def test_the_draw_does_not_look_at_labels():
    """The draw has no labels to look at; planting replaces just the canaries' rows."""
    labels = PrivateLabels(np.arange(2000) % 10, 10)
    canaries = drawn()
    planted = canaries.plant(labels).reveal()
    np.testing.assert_array_equal(planted[canaries.rows], canaries.planted)
    others = np.setdiff1d(np.arange(2000), canaries.rows)
    np.testing.assert_array_equal(planted[others], np.arange(2000)[others] % 10)
    with pytest.raises(InputError, match="another data set"):
        canaries.plant(PrivateLabels(np.zeros(10, int), 10))


def test_only_among_the_given_rows():
    among = np.arange(5, 2000, 7)
    canaries = Canaries.draw(100, rows=among, num_classes=3, entropy=SecureEntropy())
    assert np.isin(canaries.rows, among).all()


def test_the_secret_file(tmp_path):
    canaries = drawn()
    canaries.save(tmp_path / "c.npz")
    assert stat.S_IMODE(os.stat(tmp_path / "c.npz").st_mode) == 0o600
    again = Canaries.load(tmp_path / "c.npz")
    for name in ("rows", "candidates", "planted", "num_classes", "ids"):
        np.testing.assert_array_equal(getattr(again, name), getattr(canaries, name))
    bare = {"rows": canaries.rows, "candidates": canaries.candidates, "planted": canaries.planted}
    np.savez(tmp_path / "bare.npz", **bare)
    assert Canaries.load(tmp_path / "bare.npz").num_classes == 10
    np.savez(tmp_path / "bad.npz", rows=canaries.rows)
    for name, message in (("bad.npz", "needs rows, candidates and planted"), ("none.npz", "there is no file")):
        with pytest.raises(InputError, match=message):
            Canaries.load(tmp_path / name)
    np.savez(tmp_path / "f.npz", **bare | {"planted": canaries.planted + 0.5})
    with pytest.raises(InputError, match="whole numbers"):
        Canaries.load(tmp_path / "f.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"planted": [2, 2]}, "canary 0 has a planted label that is not among its candidates"),
        ({"rows": [3, 3]}, "only once"),
        ({"rows": []}, "there are no canaries"),
        ({"candidates": [[0, 0], [1, 2]]}, "differ from each other"),
        ({"candidates": [[0, 9], [1, 2]]}, "class numbers 0 to 2"),
        ({"candidates": [[0], [1]]}, "two or more"),
        ({"planted": [0]}, "of one length"),
    ],
)
def test_impossible_canaries(changes, message):
    given = {"rows": [1, 2], "candidates": [[0, 1], [1, 2]], "planted": [0, 2]} | changes
    with pytest.raises(InputError, match=message):
        Canaries(**{name: np.array(value, dtype=np.int64) for name, value in given.items()}, num_classes=3)


@pytest.mark.parametrize(("count", "candidates"), [(0, 2), (11, 2), (5, 1), (5, 4)])
def test_impossible_draws(count, candidates):
    with pytest.raises(InputError, match=r"--count|--candidates"):
        Canaries.draw(count, rows=10, num_classes=3, candidates=candidates, entropy=SecureEntropy())


def test_the_papers_way_plants_wrong_labels():
    labels = PrivateLabels(np.arange(2000) % 5, 5)
    canaries = Canaries.draw_wrong(
        500, labels=[labels.slice(0, 700), labels.slice(700, 2000)], entropy=SeededEntropy(0)
    )
    np.testing.assert_array_equal(canaries.true, canaries.rows % 5)
    assert canaries.candidates.shape == (500, 4)
    assert (canaries.planted != canaries.true).all()
    counts = np.bincount((canaries.planted - canaries.true) % 5, minlength=5)
    assert counts[0] == 0
    assert counts[1:].min() > 85  # 125 each; 4 standard deviations
    with pytest.raises(InputError, match="third class"):
        Canaries.draw_wrong(5, labels=[PrivateLabels([0, 1] * 10, 2)], entropy=SecureEntropy())


# ── files ──


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    made = pa.table({
        "uid": [f"u{i}" for i in range(300)], "y": rng.integers(0, 3, 300).astype(np.int16),
        "name": np.array(["cat", "dog", "eel"])[rng.integers(0, 3, 300)].tolist(), "x": rng.normal(size=300),
    })  # fmt: skip
    pq.write_table(made, tmp_path / "pets.parquet", row_group_size=70)
    pyarrow.csv.write_csv(made, tmp_path / "pets.csv")
    return made


@pytest.mark.parametrize("source", ["pets.parquet", "pets.csv"])
@pytest.mark.parametrize(("label", "classes"), [("y", Classes(3)), ("name", Classes(3, ("cat", "dog", "eel")))])
def test_planting_a_file_replaces_labels_and_nothing_else(table, tmp_path, source, label, classes):
    planting = plant_file(
        tmp_path / source, tmp_path / "p.parquet", tmp_path / "c.npz", label=label, classes=classes, count=40, candidates=3,
        id_column="uid", among=(100, 300),
    )  # fmt: skip
    assert (planting.rows, planting.data_set) == (300, "pets")
    assert planting.share == 40 / 300
    written, canaries = pq.read_table(tmp_path / "p.parquet"), Canaries.load(tmp_path / "c.npz")
    assert stat.S_IMODE(os.stat(tmp_path / "p.parquet").st_mode) == 0o600
    assert written.column_names == table.column_names
    assert canaries.ids.tolist() == [f"u{i}" for i in canaries.rows]
    assert canaries.rows.min() >= 100
    others = np.setdiff1d(np.arange(300), canaries.rows)
    for name in table.column_names:
        before, after = ([str(v) for v in t.column(name).to_pylist()] for t in (table, written))
        assert [before[i] for i in others] == [after[i] for i in others]
        if name == label:
            names = classes.names or ("0", "1", "2")
            assert [after[i] for i in canaries.rows] == [names[c] for c in canaries.planted]
        elif name != "x":
            assert before == after


def test_a_planted_file_does_not_escape_the_budget(table, tmp_path):
    def release(path, **changes):
        options = {
            "label": "y",
            "classes": Classes(3),
            "epsilon": 1.0,
            "id_column": "uid",
            "ledger": tmp_path / "l",
        } | changes
        return release_file(path, tmp_path / "r.parquet", ReleaseOptions(**options))

    plant_file(
        tmp_path / "pets.parquet", tmp_path / "p.parquet", tmp_path / "c.npz", label="y", classes=Classes(3), count=20, id_column="uid"
    )  # fmt: skip
    assert release(tmp_path / "p.parquet")["data_set"] == "pets"
    with pytest.raises(InputError, match="escape its budget"):
        release(tmp_path / "p.parquet", data_set="other")
    with pytest.raises(RefusedError):
        release(tmp_path / "pets.parquet", epsilon=2.0)
    assert len(Ledger(tmp_path / "l").book().releases) == 1


def test_what_was_planted_is_not_lost(table, tmp_path):
    given = {"label": "y", "classes": Classes(3), "count": 5}
    plant_file(tmp_path / "pets.parquet", tmp_path / "p.parquet", tmp_path / "c.npz", **given)
    before = (tmp_path / "c.npz").read_bytes()
    for out, secret in (("p.parquet", "d.npz"), ("q.parquet", "c.npz")):
        with pytest.raises(InputError, match="is there already"):
            plant_file(tmp_path / "pets.parquet", tmp_path / out, tmp_path / secret, **given)
    assert (tmp_path / "c.npz").read_bytes() == before
    with pytest.raises(InputError, match="escape its budget"):
        plant_file(tmp_path / "p.parquet", tmp_path / "q.parquet", tmp_path / "d.npz", data_set="other", **given)
    assert not (tmp_path / "q.parquet").exists()


def test_files_that_would_overwrite_each_other(table, tmp_path):
    given = {"label": "y", "classes": Classes(3), "count": 5}
    for out, secret in (("pets.parquet", "c.npz"), ("p.parquet", "pets.parquet"), ("p.parquet", "p.parquet")):
        with pytest.raises(InputError, match="three different files"):
            plant_file(tmp_path / "pets.parquet", tmp_path / out, tmp_path / secret, **given)
    with pytest.raises(InputError, match="written as Parquet"):
        plant_file(tmp_path / "pets.parquet", tmp_path / "p.csv", tmp_path / "c.npz", **given)
    with pytest.raises(InputError, match="not among the 300 rows"):
        plant_file(tmp_path / "pets.parquet", tmp_path / "p.parquet", tmp_path / "c.npz", among=(0, 301), **given)
