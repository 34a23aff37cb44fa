"""What a hostile review found, each as a test that fails without its fix."""

import json
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import labeldp
from labeldp.data.features import Features, join, read_features
from labeldp.data.images import folder_of_class
from labeldp.errors import InputError
from labeldp.estimators import LabelDPClassifier
from labeldp.runs.job import Job
from labeldp.runs.run import evaluate, open_run, predict, train
from labeldp.training.recipe import Recipe

ROWS = 400
NOISE = labeldp.RandomizedResponse.calibrated(epsilon=2.0, num_classes=3)


def released(folder, name="d", ids=True, rows=ROWS, **more):
    labels = np.arange(rows) % 3
    given = {"ids": [f"u{i}" for i in range(rows)]} if ids else {}
    return NOISE.release(labels, data_set=name, ledger=folder / f"{name}.ledger", **given, **more)


def features(rows=ROWS):
    return (np.arange(rows)[:, None] % 3 * 3 + np.random.default_rng(0).normal(size=(rows, 4))).astype(np.float32)


def ran(folder, release, **changes):
    train(Job(release, features(len(release)), "linear", Recipe(2, 50, 0.1), **changes), folder / "run")
    return folder / "run"


def test_a_run_directory_names_no_code_that_is_run(tmp_path):
    run = ran(tmp_path, released(tmp_path))
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"model": "os:system", "feature_shape": ["touch pwned"]}))
    with pytest.raises(InputError, match=r"not (of )?a run"):
        predict(run, features())
    (run / "config.json").write_text(json.dumps(config | {"model": "tests.training.test_review:made_here"}))
    with pytest.raises(InputError, match="name it yourself if you trust it"):
        open_run(run)
    assert open_run(run, model="tests.training.test_review:made_here")[0](features()).shape == (ROWS, 3)


def made_here(shape, num_classes):
    from labeldp.models import Linear

    return Linear(shape[0], num_classes)


@pytest.mark.filterwarnings("ignore:these labels come without ids")
def test_evaluate_warns_of_what_it_cannot_tell(tmp_path):
    release = released(tmp_path, "numbered", ids=False)
    run = ran(tmp_path, release)
    for other in (released(tmp_path, "named"), released(tmp_path, "renamed", ids=False)):
        with pytest.warns(UserWarning, match="`other_rows=True`"):
            evaluate(run, other, features())
        assert evaluate(run, other, features(), other_rows=True).accuracy.rows == ROWS
    with pytest.raises(InputError, match="were trained on"):
        evaluate(run, release, features())


def test_evaluate_compares_labels_and_a_damaged_run_is_said(tmp_path):
    run = ran(tmp_path, released(tmp_path, label="bought"))
    other = NOISE.release(
        np.zeros(50, int), data_set="o", ids=[f"n{i}" for i in range(50)], label="clicked", ledger=tmp_path / "o"
    )
    with pytest.raises(InputError, match="of the label 'clicked'"):
        evaluate(run, other, features(50))
    (run / "trained.parquet").unlink()
    same = NOISE.release(
        np.zeros(50, int), data_set="s", ids=[f"n{i}" for i in range(50)], label="bought", ledger=tmp_path / "s"
    )
    with pytest.raises(InputError, match=r"trained.parquet is missing"):
        evaluate(run, same, features(50))
    (run / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"not (of )?a run"):
        predict(run, features())


def test_one_training_at_a_time_in_a_directory(tmp_path):
    release = released(tmp_path)
    release.save(tmp_path / "r.parquet")
    np.save(tmp_path / "x.npy", features())
    holder = subprocess.Popen([sys.executable, "-c", (
        "import sys, time; from pathlib import Path; from labeldp.files.run import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).locked(): print('held', flush=True); time.sleep(60)"
    ), str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another training is running"):
            ran(tmp_path, release)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    time.sleep(0.1)
    assert ran(tmp_path, release).exists()  # a killed holder holds nothing


def test_lists_of_different_lengths_do_not_lend_each_other_numbers(tmp_path):
    pq.write_table(pa.table({"id": ["a", "b", "c"], "x": [[1.0, 2, 3], [4.0], [5.0, 6]]}), tmp_path / "ragged.parquet")
    with pytest.raises(InputError, match="of one length"):
        read_features(tmp_path / "ragged.parquet", "id")
    pq.write_table(pa.table({"id": ["a"], "x": [{"u": 1.0}]}), tmp_path / "struct.parquet")
    with pytest.raises(InputError, match="not lists of numbers"):
        read_features(tmp_path / "struct.parquet", "id")
    pq.write_table(pa.table({"income": [20_000_001, 5], "x": [1, 2]}), tmp_path / "big.parquet")
    assert read_features(tmp_path / "big.parquet").values[0, 0] == np.float32(20_000_001)


@pytest.mark.filterwarnings("ignore:these labels come without ids")
def test_numbers_are_not_joined_as_ids(tmp_path):
    with pytest.raises(InputError, match="goes by row number"):
        join(released(tmp_path, ids=False), Features(features(), np.arange(ROWS)[::-1], named=True))


def test_columns_go_by_name(tmp_path):
    given = Features(np.arange(6.0).reshape(2, 3), np.arange(2), ("a", "b", "c"))
    np.testing.assert_array_equal(given.ordered(["c", "a", "b"]), [[2, 0, 1], [5, 3, 4]])
    assert given.ordered(()) is given.values
    with pytest.raises(InputError, match="missing here d, new here c"):
        given.ordered(["a", "b", "d"])
    for name in ("bought", "BOUGHT", " Bought "):
        with pytest.raises(InputError, match="leave it out"):
            Features(features(), np.arange(ROWS), (name,)).refuse_label("bought")


def test_bytes_and_fractions_are_not_the_same_features(tmp_path):
    run = ran(tmp_path, released(tmp_path))
    with pytest.raises(InputError, match="trained on float32"):
        predict(run, np.zeros((3, 4), np.uint8))


@pytest.mark.parametrize(
    ("paths", "classes", "found"),
    [
        (["0/a.png", "1/b.png"], ("cat", "dog"), "0"),
        (["00/a.png", "01/b.png"], ("0", "1"), "00"),
        (["class_0/a.png", "class_1/b.png"], ("0", "1"), "class_0"),
        (["cafe\u0301/a.png", "x/b.png"], ("caf\u00e9", "bar"), "cafe\u0301"),
        (["2024/3/a.png", "2024/11/b.png"], tuple(map(str, range(10))), None),
        (["a.png", "b.png"], ("cat", "dog"), None),
    ],
)
def test_folders_that_tell_the_class(paths, classes, found):
    assert folder_of_class(paths, classes) == found


def test_a_refitted_classifier_forgets(tmp_path):
    release, x = released(tmp_path), features()
    clf = LabelDPClassifier(release, random_state=0).fit(x[:200], release.target()[:200])
    before = clf.predict_proba(x)
    clf.set_params(model="mlp", epochs=2).fit(x[200:], release.target()[200:])
    assert not np.allclose(clf.predict_proba(x), before)
    with pytest.raises(InputError, match="were trained on"):
        clf.score(x[200:], release.target()[200:])
    clf.set_params(model="linear", C=-1)
    with pytest.raises(InputError, match="positive"):
        clf.fit(x[:100], release.target()[:100])
    with pytest.raises(Exception, match="not fitted"):
        clf.predict(x)


def test_a_row_judges_once_and_for_its_own_release(tmp_path):
    release, x = released(tmp_path), features()
    clf = LabelDPClassifier(release).fit(x[:200], release.target()[:200])
    with pytest.raises(InputError, match="only once"):
        clf.score(np.tile(x[200:210], (10, 1)), np.tile(release.target()[200:210], (10, 1)))
    clf.set_params(release=released(tmp_path, "b"))
    with pytest.raises(InputError, match="fitted on another release"):
        clf.score(x[200:], clf.release.target()[200:])


def test_from_labels_keeps_to_what_was_asked(tmp_path):
    given = {"num_classes": 3, "data_set": "d", "ids": np.arange(30), "ledger": tmp_path / "l", "epsilon": 1.0}
    loose = labeldp.Gaussian.calibrated(epsilon=1.0, delta=1e-2, num_classes=3)
    with pytest.raises(InputError, match="more than, what was asked for"):
        LabelDPClassifier.from_labels(np.arange(30) % 3, mechanism=loose, delta=1e-9, **given)
    with pytest.raises(InputError, match="true labels"):
        LabelDPClassifier.from_labels(np.arange(30) % 3, mechanism="none", **given)
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize(("batch", "accumulate"), [(4096, 300), (8, 4)])
def test_parts_are_never_empty(tmp_path, batch, accumulate):
    recipe = Recipe(1, batch, 0.1, accumulate=accumulate)
    job = Job(released(tmp_path), features(), "mlp", recipe)
    if batch > ROWS:
        with pytest.raises(InputError, match="less than two for each"):
            train(job, tmp_path / "run")
    else:
        assert train(job, tmp_path / "run")["epochs"] == 1


def test_tied_weights_are_saved(tmp_path):
    job = Job(released(tmp_path), features(), "tests.training.test_review:Tied", Recipe(1, 50, 0.01))
    assert train(job, tmp_path / "run")["epochs"] == 1
    assert open_run(tmp_path / "run", model=job.model)[0](features()).shape == (ROWS, 3)


class Tied(torch.nn.Module):
    def __init__(self, shape, num_classes):
        super().__init__()
        self.first, self.second = torch.nn.Linear(*shape, shape[0]), torch.nn.Linear(*shape, shape[0])
        self.second.weight = self.first.weight
        self.head = torch.nn.Linear(shape[0], num_classes)

    def forward(self, x):
        return self.head(self.second(torch.relu(self.first(x))))


def test_test_rows_are_not_released_rows(tmp_path, cli):
    release = released(tmp_path)
    release.save(tmp_path / "r.parquet")
    columns = {f"x{i}": features()[:, i] for i in range(4)}
    pq.write_table(pa.table({"uid": release.ids.tolist(), **columns}), tmp_path / "x.parquet")
    pq.write_table(pa.table({"uid": release.ids.tolist(), "y": np.arange(ROWS) % 3}), tmp_path / "y.parquet")
    code, _, err = cli("train", "--release", tmp_path / "r.parquet", "--features", tmp_path / "x.parquet", "--id", "uid", "--out",
                       tmp_path / "run", "--test-features", tmp_path / "x.parquet", "--test-labels", tmp_path / "y.parquet",
                       "--test-labels-are-public")  # fmt: skip
    assert (code, "some test rows are in the release" in err) == (2, True)


def test_insecurity_travels_with_the_predictions(tmp_path, cli):
    assert (
        cli("experiment", "--dataset", "digits", "--mechanism", "none", "--epochs", "1", "--out", tmp_path / "run")[0]
        == 0
    )
    np.save(tmp_path / "x.npy", np.zeros((3, 64), np.float32))
    cli("predict", tmp_path / "run", "--features", tmp_path / "x.npy", "--out", tmp_path / "s.parquet")
    about = json.loads(pq.read_schema(tmp_path / "s.parquet").metadata[b"labeldp"])
    assert about["insecure"].startswith("no privacy")
    assert about["certificate"]["epsilon"] is None


# ── read once more ──


def test_canaries_are_audited_only_where_they_were_planted(tmp_path, cli):
    def trained(name, *more):
        return cli(
            "experiment", "--dataset", "digits", "--epsilon", "4", "--epochs", "1", "--out", tmp_path / name, *more
        )

    assert trained("plain")[0] == 0
    code, _, err = trained("plain", "--canaries", "50")
    assert (code, "without canaries" in err) == (2, True)
    assert not (tmp_path / "plain" / "canaries.npz").exists()
    assert trained("planted", "--canaries", "50")[0] == 0
    for more, message in (
        ((), "say --canaries as before"),
        (("--canaries", "60"), "other canaries"),
        (("--canaries", "50", "--seed", "1"), "other canaries"),
    ):
        code, _, err = trained("planted", *more)
        assert (code, message in err) == (2, True)


def test_ids_of_an_impossible_kind_are_refused_in_a_sentence(tmp_path, cli):
    pq.write_table(pa.table({"id": [[1], [2]], "y": ["a", "b"]}), tmp_path / "y.parquet")
    code, _, err = cli("release", tmp_path / "y.parquet", "--label", "y", "--classes", "a,b", "--id", "id", "--epsilon", "1", "--ledger",
                       tmp_path / "l", "--out", tmp_path / "r.parquet")  # fmt: skip
    assert (code, "ids must be" in err) == (2, True)
    pq.write_table(pa.table({"x": [1e300, 1.0]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"row 0 .* infinite"):
        read_features(tmp_path / "x.parquet")


# ── what new users stumbled over ──


def test_a_rare_column_does_no_harm(tmp_path):
    """One row in 6,000 has it; in a sample of the rows it is constant."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 6000)
    x = (rng.normal(size=(3, 5))[labels] * 2 + rng.normal(size=(6000, 5))).astype(np.float32)
    rare = np.zeros((6000, 1), np.float32)
    rare[3001] = 1
    strong = labeldp.RandomizedResponse.calibrated(epsilon=5.0, num_classes=3)
    release = strong.release(
        labels, data_set="d", ids=np.arange(6000), ledger=tmp_path / "l", entropy=labeldp.SeededEntropy(0)
    )
    scores = []
    for name, values in (("plain", x), ("rare", np.hstack((x, rare)))):
        train(Job(release, values, "mlp", Recipe(3, 100, 0.02)), tmp_path / name)
        scores.append((predict(tmp_path / name, values).argmax(axis=1) == labels).mean())
    assert scores[1] > scores[0] - 0.01
    assert scores[0] > 0.8


def test_other_features_are_another_run_and_a_finished_one_is_not_rewritten(tmp_path):
    release = released(tmp_path)
    run = ran(tmp_path, release)
    before = (run / "summary.json").read_bytes()
    with pytest.raises(InputError, match="with another features\\)"):
        train(Job(release, features() + 1, "linear", Recipe(2, 50, 0.1)), run)
    ran(tmp_path, release)
    assert (run / "summary.json").read_bytes() == before
    (run / "summary.json").unlink()
    with pytest.raises(InputError, match="is not finished"):
        predict(run, features())


def test_the_label_in_other_clothes_is_no_feature(tmp_path):
    for name in ("income_>50K", "Income=<=50k"):
        with pytest.raises(InputError, match="leave it out"):
            Features(features(), np.arange(ROWS), (name,)).refuse_label("income", ("<=50K", ">50K"))
    for name in ("", "__index_level_0__"):
        pq.write_table(pa.table({name: [0, 1], "x": [1.0, 2.0]}), tmp_path / "x.parquet")
        with pytest.raises(InputError, match="an index that pandas wrote"):
            read_features(tmp_path / "x.parquet")


def test_ids_that_spell_the_class_are_not_released(tmp_path, cli):
    pq.write_table(pa.table({"path": ["Cat/1.png", "dog/2.png"] * 5, "y": ["cat", "dog"] * 5}), tmp_path / "y.parquet")
    code, _, err = cli("release", tmp_path / "y.parquet", "--label", "y", "--classes", "cat,dog", "--id", "path", "--epsilon", "1",
                       "--ledger", tmp_path / "l", "--out", tmp_path / "r.parquet")  # fmt: skip
    assert (code, "called like a class" in err) == (2, True)
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--epsilon", "2"), "--epsilon goes with --dataset"),
        (("--insecure-seed", "2"), "--insecure-seed goes with --dataset"),
        (("--cutout", "4"), "are for images"),
        (("--folds", "3", "--holdout", "0.2"), "leave out --holdout"),
        (("--release", "other.parquet"), "no release file other.parquet"),
        (("--weight-decay", "-1"), "not negative"),
        (("--threads", "0"), "at least 1"),
        (
            ("--model", "tests.training.test_review:Wrong"),
            "your model tests.training.test_review:Wrong failed: KeyError: 'mine'",
        ),
        (("--model", "tests.training.test_review:features"), "failed"),
        (("--model", "tests.no_such:Net"), "cannot be imported"),
        (("--model", "tests.training.test_review:Nobody"), "has no class 'Nobody'"),
    ],
)
def test_what_would_have_been_ignored_or_hidden(tmp_path, cli, options, message):
    released(tmp_path).save(tmp_path / "r.parquet")
    columns = {f"x{i}": features()[:, i] for i in range(4)}
    pq.write_table(pa.table({"uid": [f"u{i}" for i in range(ROWS)], **columns}), tmp_path / "x.parquet")
    code, _, err = cli("train", "--release", tmp_path / "r.parquet", "--features", tmp_path / "x.parquet", "--id", "uid", "--out",
                       tmp_path / "run", *options)  # fmt: skip
    assert code == 2
    assert message in err


class Wrong(torch.nn.Module):
    def __init__(self, shape, num_classes):
        super().__init__()
        self.layer = torch.nn.Linear(shape[0], num_classes)

    def forward(self, x):
        raise KeyError("mine")


def test_names_and_ids_where_people_have_them(tmp_path):
    names = ("a", "b", "c")
    release = released(tmp_path, label_names=names)
    guesses = np.array(names)[np.arange(ROWS) % 3]
    assert release.estimate_accuracy(np.arange(ROWS), guesses) == release.estimate_accuracy(
        np.arange(ROWS), np.arange(ROWS) % 3
    )
    np.testing.assert_array_equal(release.target(ids=["u5", "u2"])[:, 1], [5, 2])
    with pytest.raises(InputError, match="there is no release"):
        LabelDPClassifier("train.parquet").fit(features(), release.target())
