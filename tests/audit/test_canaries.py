import copy
import json
import os
import pickle
import stat

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from labeldp import Ledger, PrivateLabels, SecureEntropy, SeededEntropy
from labeldp.audit.canaries import Canaries
from labeldp.audit.plant import plant_file
from labeldp.errors import AlreadyReleasedError, InputError, RefusedError
from labeldp.evaluation.accuracy import estimate_accuracy
from labeldp.mechanisms import NoPrivacy
from labeldp.release.classes import Classes
from tests.commands.releasing import release_file


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
    for name in ("rows", "candidates", "planted", "num_classes", "ids", "data_set", "data_rows", "planting"):
        np.testing.assert_array_equal(getattr(again, name), getattr(canaries, name))
    canaries.planted_in("pets", 2000).save(tmp_path / "of.npz")
    of = Canaries.load(tmp_path / "of.npz")
    assert (of.data_set, of.data_rows, len(of.planting)) == ("pets", 2000, 32)
    assert of.planting != canaries.planted_in("pets", 2000).planting
    bare = {"rows": canaries.rows, "candidates": canaries.candidates, "planted": canaries.planted}
    np.savez(tmp_path / "bare.npz", **bare)
    assert Canaries.load(tmp_path / "bare.npz").num_classes == 10
    np.savez(tmp_path / "bad.npz", rows=canaries.rows)
    np.save(tmp_path / "array.npz", canaries.rows)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "c.npz").read_bytes()[:-40])
    needs = "needs rows, candidates and planted"
    for name, message in (
        ("bad.npz", needs),
        ("array.npz.npy", needs),
        ("cut.npz", needs),
        ("none.npz", "there is no file"),
    ):
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
        ({"rows": [[1, 2]]}, "one row number a canary"),
        ({"rows": 1}, "one row number a canary"),
        ({"true": [2, 9]}, "true labels are class numbers 0 to 2"),
        ({"true": [2, -1]}, "true labels are class numbers 0 to 2"),
        ({"true": [2, 1]}, "none of its candidates"),
        ({"true": [2]}, "one a canary"),
        ({"true": [2.0, 0.0]}, "whole numbers"),
        ({"ids": [["a", "b"], ["c", "d"]]}, "of one length"),
        ({"ids": ["a", "a"]}, "differ from each other"),
        ({"ids": [0.5, 1.5]}, "whole numbers or text"),
        ({"data_rows": 2}, "some canaries are not among the 2 rows"),
        ({"data_rows": [1, 2]}, "holds no canaries"),
    ],
)
def test_impossible_canaries(tmp_path, changes, message):
    given = {"rows": [1, 2], "candidates": [[0, 1], [1, 2]], "planted": [0, 2], "num_classes": 3} | changes
    if not given["rows"]:
        given["rows"] = np.zeros(0, np.int64)
    np.savez(tmp_path / "c.npz", **given)
    with pytest.raises(InputError, match=message):
        Canaries.load(tmp_path / "c.npz")


def test_nothing_tells_what_was_planted():
    labels = PrivateLabels(np.arange(2000) % 5, 5)
    fair, wrong = drawn(5, classes=7), Canaries.draw_wrong(5, labels=[labels], entropy=SeededEntropy(0))
    assert repr(fair) == "Canaries(5 of 2 candidates, 7 classes; labels hidden)"
    assert repr(wrong) == "Canaries(5 of 4 candidates, 5 classes, with the true labels; labels hidden)"
    assert (pickle.loads(pickle.dumps(fair)).planted == fair.planted).all()
    for spread in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            spread(wrong)


@pytest.mark.parametrize(("count", "candidates"), [(0, 2), (11, 2), (5, 1), (5, 4)])
def test_impossible_draws(count, candidates):
    with pytest.raises(InputError, match=r"`count`|`candidates`"):
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
        return release_file(path, tmp_path / "r.parquet", options)

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
    with pytest.raises(
        InputError, match=r"p.parquet is there already, and .*d.npz, which would say what was planted in it, is not"
    ):
        plant_file(tmp_path / "pets.parquet", tmp_path / "p.parquet", tmp_path / "d.npz", **given)
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


# ── a planting has a name, and the ledger knows it ──


def options(tmp_path, **changes):
    return {
        "label": "y",
        "classes": Classes(3),
        "epsilon": 1.0,
        "id_column": "uid",
        "ledger": tmp_path / "l",
    } | changes


def planting(tmp_path, name, **changes):
    given = {"label": "y", "classes": Classes(3), "count": 20, "id_column": "uid"} | changes
    return plant_file(tmp_path / "pets.parquet", tmp_path / f"{name}.parquet", tmp_path / f"{name}.npz", **given)


def test_canaries_that_were_planted_after_a_release_are_not_in_it(table, tmp_path):
    """The first release knows nothing of them: it is not what was asked for, and an audit of it would say ε ≥ 0."""
    release_file(tmp_path / "pets.parquet", tmp_path / "r.parquet", options(tmp_path))
    planting(tmp_path, "p")
    with pytest.raises(AlreadyReleasedError, match=r"the canaries \(these rows were released before without them"):
        release_file(tmp_path / "p.parquet", tmp_path / "s.parquet", options(tmp_path))
    assert not (tmp_path / "s.parquet").exists()
    paid = options(tmp_path, again="charge", budget=2.0, raise_budget=True)
    assert release_file(tmp_path / "p.parquet", tmp_path / "s.parquet", paid)["charged"]
    again = release_file(
        tmp_path / "p.parquet", tmp_path / "t.parquet", options(tmp_path)
    )  # the same canaries: the same again
    assert not again["charged"]
    assert (tmp_path / "s.parquet").read_bytes() == (tmp_path / "t.parquet").read_bytes()


def test_every_planting_is_another_request(table, tmp_path):
    names = [planting(tmp_path, name).canaries.planting for name in ("p", "q")]
    assert len(set(names)) == 2
    assert pq.read_schema(tmp_path / "p.parquet").metadata[b"labeldp.planting"].decode() == names[0]
    release_file(tmp_path / "p.parquet", tmp_path / "r.parquet", options(tmp_path))
    for other in ("q", "pets"):  # other canaries, and none
        with pytest.raises(AlreadyReleasedError, match="differs in the canaries"):
            release_file(tmp_path / f"{other}.parquet", tmp_path / "s.parquet", options(tmp_path))
    (record,) = Ledger(tmp_path / "l").book().releases.values()
    assert record.request["planting"] == names[0]
    assert names[0].encode() not in (tmp_path / "r.parquet").read_bytes()  # nothing for the feature owner


def test_a_request_without_canaries_is_what_it_was_before(table, tmp_path):
    release_file(tmp_path / "pets.parquet", tmp_path / "r.parquet", options(tmp_path))
    (record,) = Ledger(tmp_path / "l").book().releases.values()
    assert sorted(record.request) == ["entropy", "label", "label_names", "mechanism", "shuffle"]


def test_a_planted_file_under_a_name_that_the_ledger_does_not_know(table, tmp_path):
    release_file(tmp_path / "pets.parquet", tmp_path / "r.parquet", options(tmp_path, data_set="visits"))
    planting(tmp_path, "p")
    with pytest.raises(RefusedError, match="Plant the canaries again with `data_set='visits'`"):
        release_file(tmp_path / "p.parquet", tmp_path / "s.parquet", options(tmp_path))
    with pytest.raises(InputError, match=r"plant again .* with `data_set='visits'`"):
        plant_file(
            tmp_path / "p.parquet", tmp_path / "q.parquet", tmp_path / "q.npz", label="y", classes=Classes(3), count=5, data_set="visits"
        )  # fmt: skip
    planting(tmp_path, "v", data_set="visits")
    with pytest.raises(AlreadyReleasedError, match="the canaries"):
        release_file(tmp_path / "v.parquet", tmp_path / "s.parquet", options(tmp_path))


# ── what is planted fits the column, and what fails leaves nothing behind ──


@pytest.mark.parametrize(
    ("kind", "classes", "wide"),
    [
        (pa.int8(), Classes(200), pa.int16()),
        (pa.uint8(), Classes(200), pa.uint8()),
        (pa.uint8(), Classes(40_000), pa.int32()),
        (pa.bool_(), Classes(2), pa.bool_()),
        (pa.bool_(), Classes(3), pa.int16()),
        (pa.float32(), Classes(200), pa.float32()),
        (pa.dictionary(pa.int32(), pa.int8()), Classes(200), pa.int16()),
        (pa.int8(), Classes(3, ("0", "1", "1000")), pa.int16()),
        (pa.int8(), Classes(3, ("0", "1", "many")), pa.string()),
    ],
)
def test_a_column_is_widened_for_labels_that_it_cannot_hold(tmp_path, kind, classes, wide):
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = pa.array([0, 1] * 200).cast(plain)
    pq.write_table(pa.table({"y": column.dictionary_encode() if plain != kind else column}), tmp_path / "y.parquet")
    done = plant_file(
        tmp_path / "y.parquet", tmp_path / "p.parquet", tmp_path / "c.npz", label="y", classes=classes, count=300
    )
    written = pq.read_table(tmp_path / "p.parquet").column("y").combine_chunks()
    assert written.type == wide
    codes = classes.encode(written, 0).reveal()
    np.testing.assert_array_equal(codes[done.canaries.rows], done.canaries.planted)
    others = np.setdiff1d(np.arange(400), done.canaries.rows)
    np.testing.assert_array_equal(codes[others], others % 2)


def test_a_failure_leaves_no_secret_behind(table, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("labeldp.audit.plant._write", full)
        with pytest.raises(InputError, match="not enough room"):
            planting(tmp_path, "p")
    assert not list(tmp_path.glob("p.*"))
    assert len(planting(tmp_path, "p").canaries) == 20  # the same command again


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([*range(9), 4], "row 9 has the same id as row 4"),
        (["a", None, *"bcdefghi"], "row 1 has no id"),
        ([i / 2 for i in range(10)], "whole numbers or text"),
    ],
)
def test_ids_that_do_not_name_rows(tmp_path, ids, message):
    pq.write_table(pa.table({"uid": ids, "y": [0, 1] * 5}), tmp_path / "y.parquet")
    with pytest.raises(InputError, match=message):
        plant_file(
            tmp_path / "y.parquet", tmp_path / "p.parquet", tmp_path / "c.npz", label="y", classes=Classes(2), count=3, id_column="uid"
        )  # fmt: skip
    assert not (tmp_path / "c.npz").exists()


# ── what to tell the feature owner ──


@pytest.mark.parametrize("wrong_only", [False, True])
def test_the_printed_share_corrects_an_accuracy(tmp_path, cli, wrong_only):
    """A third of 30,000 labels planted; predictions right 70% of the time. Seeded but for the draw: 6 standard errors of 0.004."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 4, 30_000)
    predictions = np.where(rng.random(len(true)) < 0.7, true, (true + rng.integers(1, 4, len(true))) % 4)
    pq.write_table(pa.table({"y": true}), tmp_path / "y.parquet")
    _, out, _ = cli(
        "canaries", "plant", tmp_path / "y.parquet", "--label", "y", "--classes", "4", "--count", "10000", "--out", tmp_path / "p.parquet",
        "--secret", tmp_path / "c.npz", "--json", *(["--wrong-only"] if wrong_only else []),
    )  # fmt: skip
    share = json.loads(out)["canary_share"]
    assert share == pytest.approx(4 / 9 if wrong_only else 1 / 3)
    planted = pq.read_table(tmp_path / "p.parquet").column("y").to_numpy()
    seen = estimate_accuracy(NoPrivacy(4), planted.astype(np.uint8), predictions)
    accuracy = (predictions == true).mean()
    assert seen.accuracy < accuracy - 0.1
    assert abs(seen.without_canaries(share, 4).accuracy - accuracy) < 0.025


def test_the_share_is_that_of_the_rows_it_was_planted_in(table, tmp_path, cli):
    plant = ("canaries", "plant", tmp_path / "pets.parquet", "--label", "y", "--classes", "3")
    _, out, _ = cli(
        *plant, "--count", "50", "--rows", "100:300", "--out", tmp_path / "p.parquet", "--secret", tmp_path / "c.npz"
    )
    assert "--canary-share 0.25 if it is estimated from rows 100:300" in out
    assert "(share 0)" in out
    assert "among all rows it is 0.166667" in out
    _, out, _ = cli(*plant, "--count", "300", "--out", tmp_path / "q.parquet", "--secret", tmp_path / "d.npz")
    assert "nothing can be corrected" in out
