"""Every file has an order of its own, and belongs to one data set, one planting, one model: what is joined wrongly proves nothing."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import SeededEntropy
from labeldp.audit.attack import CalibratedAttack, ModelAttack, NeighbourAttack
from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit
from labeldp.audit.places import find, places_in_release, read_placed
from labeldp.audit.plant import plant_file
from labeldp.errors import InputError
from labeldp.release.classes import Classes
from tests.commands.releasing import release_file

ROWS, CLASSES = 1200, 5


def write_scores(path, ids, table, about=None):
    made = pa.table({"id": pa.array(ids), "probabilities": table.tolist()})
    pq.write_table(made.replace_schema_metadata({b"labeldp": json.dumps(about).encode()} if about else None), path)


class Owner:
    """Labels with canaries, ids that are whole numbers in another order than the rows, a shuffled release, a model's tables."""

    def __init__(self, folder, by_id=True, mechanism="response", delta=None, shuffle=True):
        self.folder, rng = folder, np.random.default_rng(0)
        self.ids = rng.permutation(ROWS)  # a row number is always somebody else's id
        labels = pa.table({"uid": self.ids, "y": rng.integers(0, CLASSES, ROWS)})
        pq.write_table(labels, folder / "y.parquet")
        self.secret, self.released = folder / "c.npz", folder / "r.parquet"
        plant_file(
            folder / "y.parquet", folder / "p.parquet", self.secret, label="y", classes=Classes(CLASSES), count=300,
            id_column="uid" if by_id else None, entropy=SeededEntropy(0),
        )  # fmt: skip
        options = {
            "label": "y",
            "classes": CLASSES,
            "epsilon": 4.0,
            "id_column": "uid",
            "ledger": folder / "l",
            "mechanism": mechanism,
            "delta": delta,
            "shuffle": shuffle,
        }
        release_file(folder / "p.parquet", self.released, options)
        self.canaries, self.release = Canaries.load(self.secret), labeldp.Release.load(self.released)
        self.features = rng.normal(size=(ROWS, 3)).astype(np.float32)
        self.reference = rng.dirichlet(np.full(CLASSES, 0.3), ROWS)
        logits = np.log(self.reference + 1e-9)
        logits[self.canaries.rows, self.canaries.planted] += 1.5  # remembered
        self.model = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        self.order = rng.permutation(ROWS)

    def permuted(self, name, table, about=None):
        write_scores(self.folder / name, self.ids[self.order], table[self.order], about)
        return self.folder / name


def looked(out):
    return [(look["attack"], look["correct"], look["guesses"]) for look in json.loads(out)["looks"]]


def test_permuted_files_say_what_ordered_ones_say(tmp_path, cli):
    """Scores, reference, release and features in four orders: the result is that of arrays in the order of the data set."""
    owner = Owner(tmp_path)
    order = np.random.default_rng(1).permutation(ROWS)
    columns = {f"x{i}": owner.features[order, i] for i in range(3)}
    pq.write_table(pa.table({"uid": owner.ids[order], **columns}), tmp_path / "x.parquet")
    write_scores(tmp_path / "ref.parquet", owner.ids[::-1], owner.reference[::-1])
    scores = owner.permuted("s.parquet", owner.model)
    expected = audit(
        owner.model, owner.canaries, release=owner.release,
        attacks=[ModelAttack(owner.model), CalibratedAttack(owner.model, owner.reference), NeighbourAttack(owner.model, owner.features)],
    )  # fmt: skip
    common = ("--canaries", owner.secret, "--release", owner.released, "--json")
    code, out, err = cli("audit", scores, "--reference", tmp_path / "ref.parquet", "--features", tmp_path / "x.parquet", "--id", "uid",
                         *common)  # fmt: skip
    assert code == 0, err
    assert looked(out) == [(look.attack, look.correct, look.guesses) for look in expected.looks]
    assert json.loads(out)["epsilon_low"] == expected.epsilon_low
    assert json.loads(out)["certificate"] == pytest.approx(4)
    by_name = {look.attack: look.correct / look.guesses for look in expected.looks}
    assert by_name["release"] > 0.9  # so the join is right, not only the same
    assert by_name["calibrated"] > 0.98
    np.save(tmp_path / "s.npy", owner.model)
    np.save(tmp_path / "ref.npy", owner.reference)
    np.save(tmp_path / "x.npy", owner.features)
    for files in (
        (tmp_path / "s.npy", "--reference", tmp_path / "ref.npy", "--features", tmp_path / "x.npy"),
        (tmp_path / "s.npy", "--reference", tmp_path / "ref.parquet", "--features", tmp_path / "x.npy"),
    ):
        code, again, err = cli("audit", *files, *common)
        assert (code, json.loads(again)) == (0, json.loads(out)), err
    # Features by number beside scores by id, and the other way round: nobody knows which row is which.
    for files in (
        (scores, "--features", tmp_path / "x.npy"),
        (tmp_path / "s.npy", "--features", tmp_path / "x.parquet", "--id", "uid"),
    ):
        code, _, err = cli("audit", *files, *common)
        assert (code, "name the features' id column (--id)" in err) == (2, True)


def test_scores_by_row_number(tmp_path):
    """Canaries without ids are found only where ids are row numbers, in order; `predict` without --id says that they are no names."""
    bare = Owner(tmp_path, by_id=False, shuffle=False)
    numbered = tmp_path / "n.parquet"
    write_scores(numbered, np.arange(ROWS), bare.model)
    assert read_placed(numbered, bare.canaries).places.tolist() == bare.canaries.rows.tolist()
    for name, ids in (("s.parquet", bare.ids), ("t.parquet", [f"u{i}" for i in range(ROWS)])):
        write_scores(tmp_path / name, ids, bare.model)
        with pytest.raises(InputError, match="plant with ids"):
            read_placed(tmp_path / name, bare.canaries)
    (tmp_path / "named").mkdir()
    named = Owner(tmp_path / "named")
    write_scores(numbered, np.arange(ROWS), named.model, {"named": False})
    scores = read_placed(numbered, named.canaries)
    assert (scores.places.tolist(), scores.ids) == (named.canaries.rows.tolist(), None)
    assert (places_in_release(bare.release, bare.canaries) == bare.canaries.rows).all()  # in its source's order
    with pytest.raises(InputError, match="shuffled"):
        places_in_release(named.release, bare.canaries)


def test_a_hundred_ids_among_many():
    """In pieces, as text: a number and its digits are one id; what repeats is refused."""
    among = pa.array([f"{i}" for i in range(2_500_000)])
    wanted = np.array([2_499_999, 0, 1 << 20, 7, -5])
    assert find(wanted, among, "here").tolist() == [2_499_999, 0, 1 << 20, 7, -1]
    with pytest.raises(InputError, match="ids in here repeat"):
        find(["a"], pa.array(["a", "b", "a"]), "here")
    with pytest.raises(InputError, match="ids in here repeat"):
        find([3], pa.chunked_array([pa.array(np.arange(1 << 20)), pa.array([3])]), "here")
    with pytest.raises(InputError, match="looked for repeat"):
        find(["a", "a"], pa.array(["a"]), "here")


def test_files_that_do_not_belong_together(tmp_path, cli):
    owner = Owner(tmp_path)
    common = ("--canaries", owner.secret)
    np.save(tmp_path / "long.npy", np.vstack([owner.model, owner.model]))
    code, _, err = cli("audit", tmp_path / "long.npy", *common)
    assert (code, "2,400 rows of probabilities, and the canaries were planted in 1,200" in err) == (2, True)
    with pytest.raises(InputError, match="planted in 1,200"):
        audit(np.vstack([owner.model, owner.model]), owner.canaries)
    half = owner.order[: ROWS // 2]
    write_scores(tmp_path / "half.parquet", owner.ids[half], owner.model[half])
    code, _, err = cli("audit", tmp_path / "half.parquet", *common)
    assert (code, "ask for the probabilities of all rows" in err) == (2, True)
    header = owner.release.header | {"data_set": "other"}
    other = labeldp.Release(header, owner.release.mechanism, owner.release._ids, owner.release.observations, "0")
    with pytest.raises(InputError, match="planted in data set 'y', and this release is of 'other'"):
        audit(None, owner.canaries, release=other)
    large = labeldp.Release(owner.release.header | {"first_row": 1}, other.mechanism, None, other.observations, "0")
    with pytest.raises(InputError, match="this release is of more"):
        audit(None, owner.canaries, release=large)
    part = labeldp.Release(owner.release.header, other.mechanism, owner.release._ids[:600], other.observations[:600], "0")  # fmt: skip
    found = audit(None, owner.canaries, release=part)
    missing = int((places_in_release(part, owner.canaries) < 0).sum())
    assert 100 < missing < 200
    assert f"{missing} of 300 canaries are not in this release." in found.warnings
    assert audit(None, owner.canaries, release=owner.release).warnings == ()
    ragged = pa.table({"id": owner.ids[:2], "probabilities": [[1.0], [0.5, 0.25, 0.25]]})
    pq.write_table(ragged, tmp_path / "ragged.parquet")
    code, _, err = cli("audit", tmp_path / "ragged.parquet", *common)
    assert (code, "of one length" in err) == (2, True)


def test_the_gaussian_curve_is_only_for_what_came_through_the_release(tmp_path, cli):
    """A model that remembers more than a release of Gaussian noise tells was trained on something else."""
    owner = Owner(tmp_path, mechanism="gaussian", delta=1e-5)
    gaussian = (
        "--canaries",
        owner.secret,
        "--release",
        owner.released,
        "--method",
        "gaussian",
        "--delta",
        "1e-5",
        "--json",
    )
    about = {"certificate": None, "release": owner.release.checksum}
    own = owner.permuted("own.parquet", owner.model, about)
    foreign = owner.permuted("foreign.parquet", owner.model, about | {"release": "f" * 64})
    silent = owner.permuted("silent.parquet", owner.model)
    np.save(tmp_path / "s.npy", owner.model)
    code, out, _ = cli("audit", own, *gaussian)
    assert [look[0] for look in looked(out)] == ["model", "release"]
    assert json.loads(out)["warnings"] == []
    for unknown in (silent, tmp_path / "s.npy"):
        code, out, _ = cli("audit", unknown, *gaussian)
        assert (code, [look[0] for look in looked(out)]) == (0, ["release"])
        assert "not known to come from this release" in json.loads(out)["warnings"][0]
        assert json.loads(out)["looks"][0]["alpha"] == pytest.approx(0.05 / 4)
    code, _, err = cli("audit", foreign, *gaussian)
    assert (code, "trained on another release" in err) == (2, True)
    code, _, err = cli("audit", own, *gaussian, "--reference", own)
    assert (code, "takes no --reference" in err) == (2, True)
    # The bound that assumes nothing holds for them all; but this release's certificate says nothing of another's model.
    plain = ("--canaries", owner.secret, "--release", owner.released, "--delta", "1e-5", "--json")
    results = {path: json.loads(cli("audit", path, *plain)[1]) for path in (own, silent, foreign)}
    assert results[own]["certificate"] == results[silent]["certificate"] == pytest.approx(4, rel=0.01)
    assert results[own]["warnings"] == results[silent]["warnings"] == []
    assert results[foreign]["certificate"] is None
    assert "another release than this one" in results[foreign]["warnings"][0]
    assert len({result["epsilon_low"] for result in results.values()}) == 1
    known = audit(owner.model, owner.canaries, release=owner.release, from_release=True, delta=1e-5, method="gaussian")
    assert [look.attack for look in known.looks] == ["model", "release"]
