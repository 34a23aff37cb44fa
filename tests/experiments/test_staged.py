"""Stages: each row is released once, later ones by the earlier model; the rows that judge shape nothing."""

import json

import numpy as np
import pytest

from labeldp import Ledger, Release
from labeldp.errors import InputError
from labeldp.experiments.staged import Dealing
from labeldp.release.joint import join_releases
from labeldp.release.rows import Span
from labeldp.runs.job import Job, holding_out
from labeldp.training.recipe import changed, default_recipe


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("holdout", [0.0, 0.1, 0.5])
def test_rows_are_dealt_once_and_evenly(stages, holdout):
    dealing = Dealing(stages, holdout, seed=3)
    parts = dealing.parts(1000)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1000))
    held_out = round(holdout * 1000)
    sizes = [len(parts[0]) - held_out, *map(len, parts[1:])]
    assert max(sizes) - min(sizes) <= 1
    trained = dealing.trained_on(1000)
    assert len(trained) == 1000 - held_out
    held, _ = holding_out(len(parts[0]), dealing.first_share(1000), 3)
    assert not np.isin(parts[0][held], trained).any()


@pytest.fixture(scope="module")
def run(tmp_path_factory, staged_cli):
    folder = tmp_path_factory.mktemp("staged") / "run"
    return folder, staged_cli(folder, "--stages", "2", "--epsilon", "4", "--canaries", "100")


@pytest.fixture(scope="module")
def staged_cli():
    from typer.testing import CliRunner

    from labeldp.cli import app

    def call(folder, *options):
        result = CliRunner().invoke(
            app, ["experiment", "--dataset", "digits", "--model", "linear", "--out", str(folder), "--json", *options]
        )
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return call


def test_one_label_one_charge(run):
    folder, summary = run
    ledger = Ledger(folder / "labels.ledger")
    data_set = ledger.book().data_sets["digits"]
    assert len(data_set.releases) == 2
    assert data_set.spent().pure <= 4.0
    assert summary["certificate"]["epsilon"] <= 4.0
    assert summary["certificate"]["delta"] == 0
    one, two = (Release.load(folder / f"released-{n}.parquet") for n in (1, 2))
    assert sorted([*one.ids, *two.ids]) == list(range(1437))
    assert two.mechanism.name == "prior"
    assert two.origins[0].releases == (one.checksum,)
    assert two.origins[0].judge == one.checksum


def test_all_compute_is_counted(run):
    _, summary = run
    assert [stage["rows_trained"] for stage in summary["stages"]] == [646, 1293]
    assert summary["train_flop"] == sum(stage["train_flop"] for stage in summary["stages"])


def test_rows_that_judge_were_trained_on_by_no_stage(run):
    folder, summary = run
    import pyarrow.parquet as pq

    joint = join_releases([Release.load(folder / f"released-{n}.parquet") for n in (1, 2)])
    config = json.loads((folder / "config.json").read_text())
    job = Job(joint, np.zeros((len(joint), 64), np.float32), "linear", default_recipe("linear"), config["holdout"])
    judges = set(joint.ids[job.split().report].tolist())
    assert len(judges) == summary["rows_judged"] == 144
    for place in (folder, folder / "stage-1"):
        assert not judges & set(pq.read_table(place / "trained.parquet").column("id").to_pylist())
    assert abs(summary["accuracy_estimated"] - summary["accuracy_test"]) < 6 * summary["standard_error"] + 0.1


def test_canaries_are_found_in_both_stages(run):
    """Who sees the releases is right in 98 of 100 guesses; in wrong rows in 50, and eight of ten of 40 then with probability 1e-4."""
    _, summary = run
    found = summary["audit"]["release"]["looks"][0]
    assert found["guesses"] >= 40
    assert found["correct"] >= 0.8 * found["guesses"]


def test_again_is_free_and_the_same(run, staged_cli):
    folder, summary = run
    again = staged_cli(folder, "--stages", "2", "--epsilon", "4", "--canaries", "100")
    assert again.pop("given").startswith("by its own account")
    assert again == summary
    assert len(Ledger(folder / "labels.ledger").book().releases) == 2


def test_interrupted_between_stages_it_goes_on(tmp_path, staged_cli, monkeypatch):
    from labeldp.experiments import staged

    real = staged.train

    def killed(job, folder, **others):
        if folder.name == "run":
            raise KeyboardInterrupt
        return real(job, folder, **others)

    monkeypatch.setattr(staged, "train", killed)
    with pytest.raises(AssertionError):
        staged_cli(tmp_path / "run", "--stages", "3", "--epsilon", "4", "--mechanism", "response", "--denoise", "none")
    files = {name: (tmp_path / "run" / name).read_bytes() for name in ("released-1.parquet", "released-3.parquet")}
    monkeypatch.setattr(staged, "train", real)
    summary = staged_cli(
        tmp_path / "run", "--stages", "3", "--epsilon", "4", "--mechanism", "response", "--denoise", "none"
    )
    assert len(summary["stages"]) == 3
    assert files == {name: (tmp_path / "run" / name).read_bytes() for name in files}
    assert len(Ledger(tmp_path / "run" / "labels.ledger").book().releases) == 3


def test_hard_labels_and_evidence_are_different_trainings(run, tmp_path, staged_cli):
    config = json.loads((run[0] / "config.json").read_text())
    assert "denoise" not in config["recipe"]
    staged_cli(
        tmp_path / "hard",
        "--stages",
        "2",
        "--epsilon",
        "4",
        "--denoise",
        "none",
        "--epochs",
        "2",
        "--stage-epochs",
        "1",
    )
    config = json.loads((tmp_path / "hard" / "config.json").read_text())
    assert (config["recipe"]["denoise"], config["recipe"]["epochs"]) == ("none", 2)
    before = json.loads((tmp_path / "hard" / "stage-1" / "config.json").read_text())
    assert (before["recipe"]["denoise"], before["recipe"]["epochs"]) == ("none", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--stages", "0"), "from 2 on"),
        (("--stages", "2", "--folds", "2"), "`folds`"),
        (("--stages", "2", "--mechanism", "laplace"), "subset or response"),
        (("--stages", "2", "--mechanism", "none"), "subset or response"),
        (("--stages", "900"), "too few"),
        (("--stage-epochs", "3"), "`stages`"),
        (("--denoise", "magic"), "`denoise` is bayes"),
        (("--denoise", "argmax", "--prior", "none"), "leave out `prior`"),
    ],
)
def test_bad_options(tmp_path, options, message):
    from typer.testing import CliRunner

    from labeldp.cli import app

    epsilon = () if "--mechanism" in options and "none" in options else ("--epsilon", "2")
    result = CliRunner().invoke(
        app, ["experiment", "--dataset", "digits", "--out", str(tmp_path / "run"), *epsilon, *options]
    )
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_stages_need_a_bundled_data_set(tmp_path):
    from typer.testing import CliRunner

    from labeldp.cli import app

    options = ["--release", "r.parquet", "--features", "x.parquet", "--stages", "2", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["train", *options])
    assert "--stages goes with --dataset" in str(result.exception)


def test_another_seed_than_the_earlier_stage_is_refused(run):
    folder, _ = run
    joint = join_releases([Release.load(folder / f"released-{n}.parquet") for n in (1, 2)])
    features, recipe = np.zeros((len(joint), 64), np.float32), default_recipe("linear")
    share = json.loads((folder / "config.json").read_text())["holdout"]
    Job(joint, features, "linear", recipe, share)
    Job(joint, features, "linear", recipe, 0.0)
    Job(joint, features, "linear", recipe, 0.1, prior_saw_none=True)
    for changes in (
        {"holdout": 0.1},
        {"recipe": changed(recipe, seed=1), "holdout": share},
        {"select": "best", "holdout": share},
    ):
        with pytest.raises(InputError, match="`seed=0`"):
            Job(**{"release": joint, "features": features, "model": "linear", "recipe": recipe} | changes)


def test_another_first_release_than_the_earlier_stage_is_refused(tmp_path):
    """Stage one named A first, so A's rows judge; here B would."""
    from labeldp import SecureEntropy
    from labeldp.release.make import make_release
    from labeldp.release.order import Order
    from labeldp.release.prior import PublicPrior
    from tests.release.test_make import IDS, ROWS, source
    from tests.release.test_make import run as made

    ledger = Ledger(tmp_path / "l")
    a, b = (Release.load(made(ledger, selected=span).path) for span in ((0, 1000), (1000, 2000)))
    first = Job(join_releases([a, b]), np.zeros((2000, 4), np.float32), "linear", default_recipe("linear"), 0.1)
    assert first.judge() == a.checksum
    about = {
        "releases": list(first.release.behind), "judge": first.judge(), "seed": 0, "holdout": 0.1, "select": "last",
        "certificate": first.release.certificate(), "insecure": None,
    }  # fmt: skip
    given, selected, entropy = source(), Span(2000, ROWS), SecureEntropy()
    values = np.full((ROWS, 10), 0.1)
    for origin, right in ((about, [a, b]), ({}, None)):
        own = ledger if right else Ledger(tmp_path / "other")
        prior = PublicPrior.of(values, IDS, origin)
        order = Order.with_prior(prior, given, "visits", epsilon=1.0, entropy=entropy, selected=selected)
        c = Release.load(make_release(order, ledger=own, entropy=entropy).path)
        features = np.zeros((ROWS, 4), np.float32)
        if right is None:
            with pytest.raises(InputError, match="nothing says which rows"):
                Job(c, features[: len(c)], "linear", default_recipe("linear"), 0.1)
            Job(c, features[: len(c)], "linear", default_recipe("linear"), 0.0)
            continue
        Job(join_releases([a, b, c]), features, "linear", default_recipe("linear"), 0.1)
        with pytest.raises(InputError, match="name first the release"):
            Job(join_releases([b, a, c]), features, "linear", default_recipe("linear"), 0.1)


def test_other_options_in_the_same_directory_are_refused(run):
    from typer.testing import CliRunner

    from labeldp.cli import app

    options = [
        "experiment",
        "--dataset",
        "digits",
        "--model",
        "linear",
        "--out",
        str(run[0]),
        "--stages",
        "2",
        "--canaries",
        "100",
    ]
    for changed_options in (
        ["--epsilon", "8"],
        ["--epsilon", "4", "--mechanism", "response"],
        ["--epsilon", "4", "--insecure-seed", "1"],
    ):
        result = CliRunner().invoke(app, [*options, *changed_options])
        assert "holds another run" in str(result.exception)


def test_rows_behind_the_prior_cannot_judge_either(run, tmp_path):
    from labeldp.runs.run import evaluate, train

    folder, _ = run
    one, two = (Release.load(folder / f"released-{n}.parquet") for n in (1, 2))
    features = np.random.default_rng(0).normal(size=(len(two), 4)).astype(np.float32)
    train(Job(two, features, "linear", changed(default_recipe("linear"), epochs=1), 0.0), tmp_path / "alone")
    with pytest.raises(InputError, match="its rows shaped what was learned"):
        evaluate(tmp_path / "alone", one, np.zeros((len(one), 4), np.float32))


def test_folds_judge_with_the_first_release_and_never_beside_a_prior(run, tmp_path):
    from labeldp.runs.crossfit import cross_fit
    from tests.release.test_make import run as made

    folder, _ = run
    features, recipe = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32), default_recipe("linear")
    staged = join_releases([Release.load(folder / f"released-{n}.parquet") for n in (1, 2)])
    with pytest.raises(InputError, match="public prior"):
        cross_fit(Job(staged, features[: len(staged)], "linear", recipe, 0.0), tmp_path / "a", 2)
    ledger = Ledger(tmp_path / "l")
    plain = join_releases([Release.load(made(ledger, selected=span).path) for span in ((0, 1000), (1000, 3000))])
    summary = cross_fit(Job(plain, features, "linear", recipe, 0.0), tmp_path / "b", 2)
    assert summary["rows_judged"] == 1000
    assert summary["rows_trained"] == 3000


@pytest.mark.parametrize(
    "options",
    [
        ("--stages", "2"),  # no ε
        ("--stages", "2", "--epsilon", "-1"),
        ("--stages", "2", "--epsilon", "2", "--dataset", "nope"),
        ("--stages", "2", "--epsilon", "2", "--stage-epochs", "0"),
        ("--stages", "2", "--epsilon", "2", "--denoise", "magic"),
        ("--epsilon", "2", "--denoise", "magic"),
        ("--epsilon", "2", "--learning-rate", "-1"),
    ],
)
def test_what_cannot_be_leaves_nothing_behind(tmp_path, options):
    """So that the same command, mended, is not refused for what the wrong one wrote."""
    from typer.testing import CliRunner

    from labeldp.cli import app

    result = CliRunner().invoke(app, ["experiment", "--dataset", "digits", "--out", str(tmp_path / "run"), *options])
    assert isinstance(result.exception, InputError)
    assert not (tmp_path / "run").exists()


def test_joined_releases_are_no_file(run, tmp_path):
    joint = join_releases([Release.load(run[0] / f"released-{n}.parquet") for n in (1, 2)])
    with pytest.raises(InputError, match="no file"):
        joint.save(tmp_path / "joint.parquet")
    assert not list(tmp_path.iterdir())
