"""One statistic in place of rows: of digits a linear model, of images an encoder, the statistic, and a student."""

import json

import numpy as np
import pytest

from labeldp import Ledger
from labeldp.accounting.entries import DELIVERED
from labeldp.commands import ExperimentOptions, experiment
from labeldp.data.bundled import Bundled, load
from labeldp.errors import InputError, UnfinishedError
from labeldp.experiments import from_moments
from labeldp.features.encoder import Encoder, EncoderRecipe, learned_encoder
from labeldp.files.run import RunFolder
from labeldp.private import PrivateLabels
from labeldp.runs import student
from labeldp.runs.run import predict
from labeldp.statistics.moments_file import MomentsGathering
from labeldp.statistics.reading import load_fittable
from labeldp.training.trainer import Trainer
from tests.runs.stripes import KINDS, stripes
from tests.test_clocks import same, worlds  # noqa: F401 (a fixture)

ROWS = 120


def pictures(labels=None):
    images, true = stripes(ROWS)
    test, public = stripes(60, seed=7)
    return Bundled("fashion", images, PrivateLabels(true if labels is None else labels, KINDS), test, public)


@pytest.fixture
def small(monkeypatch):
    """A data set of images that fits a test."""
    monkeypatch.setattr(from_moments, "load", lambda name, folder: pictures())


def options(out, **changes):
    usual = {"dataset": "fashion", "epsilon": 8.0, "mechanism": "moments", "flop": 1.0, "batch_size": 40}
    return ExperimentOptions(out=out, **(usual | changes))


def digits(out, **changes):
    return ExperimentOptions(out=out, **({"dataset": "digits", "epsilon": 0.5, "mechanism": "moments"} | changes))


@pytest.mark.parametrize(("mechanism", "delta"), [("moments", 1e-5), ("histogram", 0.0)])
def test_of_digits_the_statistics_own_model_is_the_run(tmp_path, mechanism, delta):
    summary = experiment(digits(tmp_path / "run", mechanism=mechanism))
    run = RunFolder(tmp_path / "run")
    made = load_fittable(run.statistic)
    assert summary["certificate"] == made.certificate()
    assert summary["certificate"]["epsilon"] <= 0.5
    assert summary["certificate"]["delta"] == delta
    assert (summary["trust"], summary["model"], summary["seconds"]) == ("central", mechanism, None)
    assert "accuracy_test_fitted" not in summary
    assert not run.features.path.exists()
    bundle = load("digits", None)
    right = predict(run.path, bundle.test_features).argmax(axis=1) == bundle.test_labels
    assert summary["accuracy_test"] == right.mean() > 0.5
    (record,) = Ledger(run.ledger).book().releases.values()
    assert record.reached(DELIVERED)
    assert record.checksum == made.checksum
    again = experiment(digits(tmp_path / "run", mechanism=mechanism))
    assert "given" in again
    assert len(Ledger(run.ledger).book().releases) == 1


def test_seeded_noise_repeats_and_protects_nobody(tmp_path):
    one, two = (experiment(digits(tmp_path / name, insecure_seed=3)) for name in "ab")
    assert one["accuracy_test"] == two["accuracy_test"]
    assert one["certificate"]["epsilon"] is None
    assert one["insecure"]
    sums = [load_fittable(RunFolder(tmp_path / name).statistic).sums for name in "ab"]
    assert (sums[0] == sums[1]).all()


def test_another_price_is_another_run(tmp_path):
    experiment(digits(tmp_path / "run"))
    for change in ({"epsilon": 0.6}, {"delta": 1e-6}, {"mechanism": "histogram"}, {"mechanism": "response"}):
        with pytest.raises(InputError, match="another mechanism, ε or seed"):
            experiment(digits(tmp_path / "run", **change))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("mechanism", ["moments", "histogram"])
def test_of_images_an_encoder_the_statistic_and_a_student(tmp_path, mechanism, cli):
    summary = experiment(options(tmp_path / "run", mechanism=mechanism))
    run = RunFolder(tmp_path / "run")
    made, encoder = load_fittable(run.statistic), Encoder.load(run.features.path)
    assert summary["certificate"] == made.certificate()
    assert summary["model"] == "fast"
    assert summary["start_flop"] == encoder.flop > 0
    assert summary["epochs"] == 1
    bundle = pictures()
    x = encoder.transform(bundle.features)
    fitted = made.fit(x).probabilities(encoder.transform(bundle.test_features)).argmax(axis=1)
    assert summary["accuracy_test_fitted"] == (fitted == bundle.test_labels).mean()
    right = predict(run.path, bundle.test_features).argmax(axis=1) == bundle.test_labels
    assert summary["accuracy_test"] == right.mean()
    assert len(Ledger(run.ledger).book().releases) == 1
    np.save(tmp_path / "more.npy", bundle.test_features)
    assert cli("predict", run.path, "--features", tmp_path / "more.npy", "--out", tmp_path / "p.parquet")[0] == 0
    code, out, _ = cli("report", run.path, "--out", tmp_path / "r.html", "--json")
    assert code == 0
    (shown,) = json.loads(out)["runs"]
    assert (shown["checked"], shown["trust"]) == (True, "central")
    assert "the statistic’s own model" in (tmp_path / "r.html").read_text()


@pytest.mark.usefixtures("small")
def test_an_encoder_is_shared_by_several_runs(tmp_path):
    learned_encoder(pictures().features, tmp_path / "encoder", EncoderRecipe("contrastive", 1))
    learned_encoder(pictures().features, tmp_path / "other", EncoderRecipe("contrastive", 1, seed=1))
    given = options(tmp_path / "run", start=tmp_path / "encoder", flop=None, epochs=1)
    summary = experiment(given)
    run = RunFolder(tmp_path / "run")
    assert not run.features.contrast.exists()
    assert summary["start_flop"] == Encoder.load(tmp_path / "encoder").flop
    assert (np.load(run.features.rows) == Encoder.load(tmp_path / "encoder").transform(pictures().features)).all()
    with pytest.raises(InputError, match="another start"):
        experiment(options(run.path, start=tmp_path / "other", flop=None, epochs=1))
    with pytest.raises(InputError, match="'fast', and 'fast-wide' is to be trained"):
        experiment(options(tmp_path / "new", start=tmp_path / "encoder", model="fast-wide"))
    assert not RunFolder(tmp_path / "new").ledger.exists()


@pytest.mark.usefixtures("small")
def test_a_directory_that_is_taken_is_said_before_anything_is_learned(tmp_path, monkeypatch):
    experiment(digits(tmp_path / "rows", mechanism="subset", model="linear", epochs=1))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    monkeypatch.setattr(from_moments, "learned_encoder", None)
    with pytest.raises(InputError, match="another mechanism"):
        experiment(options(tmp_path / "rows"))
    with pytest.raises(InputError, match="no experiment"):
        experiment(options(tmp_path / "run"))


@pytest.mark.usefixtures("small")
def test_flop_are_shared_by_encoder_and_student(tmp_path):
    bundle = pictures()
    wanted = 2e11
    summary = experiment(options(tmp_path / "run", flop=wanted))
    assert summary["start_flop"] == pytest.approx(0.8 * wanted, rel=0.1)
    assert summary["train_flop"] + summary["start_flop"] == pytest.approx(wanted, rel=0.1)
    rest = wanted - summary["start_flop"]
    assert summary["epochs"] == student.epochs_for(rest, "fast", bundle.features, KINDS)


@pytest.mark.usefixtures("small")
def test_killed_it_goes_on_and_pays_once(tmp_path, monkeypatch):
    whole = experiment(options(tmp_path / "whole", insecure_seed=1, epochs=2, flop=None))
    killed, plain = [], Trainer.save

    def saved(self, path):
        plain(self, path)
        if not killed:
            killed.append(path)
            raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "save", saved)
    given = options(tmp_path / "run", insecure_seed=1, epochs=2, flop=None)
    with pytest.raises(KeyboardInterrupt):
        experiment(given)
    run = RunFolder(tmp_path / "run")
    before = run.statistic.read_bytes()
    went_on = experiment(given)
    assert run.statistic.read_bytes() == before
    assert len(Ledger(run.ledger).book().releases) == 1
    unlike = {"release", "releases"}  # of another ledger
    assert {k: v for k, v in went_on.items() if k not in unlike} == {k: v for k, v in whole.items() if k not in unlike}
    assert run.checkpoint.read_bytes() == RunFolder(tmp_path / "whole").checkpoint.read_bytes()


@pytest.mark.usefixtures("small")
def test_what_fails_after_the_charge_says_that_it_is_paid(tmp_path, monkeypatch):
    def failing(*given, **more):
        raise InputError("the disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(from_moments, "train_student", failing)
        with pytest.raises(UnfinishedError, match="The release is charged"):
            experiment(options(tmp_path / "run"))
    assert experiment(options(tmp_path / "run"))["epochs"] == 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"learning_rate": -1.0}, "learning rate"),
        ({"device": "abacus"}, "abacus"),
        ({"model": "resnet18"}, "one of fast, fast-medium, fast-wide; not 'resnet18'"),
        ({"flop": -1.0}, "`flop` is a positive number"),
        ({"epochs": 3}, "`flop` or in `epochs`, not both"),
        ({"epsilon": None}, "`epsilon` is missing"),
        ({"delta": 0.0}, "a δ above 0"),
        ({"mechanism": "histogram", "delta": 1e-5}, "pure ε: leave out `delta`"),
        ({"canaries": 5}, "no row to plant, stage, hold out or choose by: leave out `canaries`"),
        ({"stages": 2}, "leave out `stages`"),
        ({"folds": 2}, "leave out `folds`"),
        ({"holdout": 0.2}, "leave out `holdout`"),
        ({"select": "best"}, "leave out `select`"),
        ({"prior": "model", "fixmatch": True}, "leave out `prior`, `fixmatch`"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_paid(tmp_path, change, said):
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        experiment(options(tmp_path / "run", **change))
    assert not RunFolder(tmp_path / "run").ledger.exists()


def test_what_a_linear_model_does_not_follow_is_said(tmp_path):
    with pytest.raises(InputError, match="by a rule of its own: leave out `epochs`, `start`"):
        experiment(digits(tmp_path / "run", epochs=3, start=tmp_path))


def lived(world, codes, seconds):
    """An experiment on these labels, whose noisy sums are forced to be the same in every world."""
    gather = MomentsGathering.add

    def slowly(self, labels, places):
        gather(self, labels, places)
        world.work(seconds)

    def forced(self, entropy):
        arrays = self._plan.arrays()
        shape = arrays["moments"].shape
        return arrays | {"moments": np.arange(np.prod(shape), dtype=np.int64).reshape(shape) * 10_000}

    world.patch.setattr(from_moments, "load", lambda name, folder: pictures(codes))
    world.patch.setattr(MomentsGathering, "add", slowly)
    world.patch.setattr(MomentsGathering, "finish", forced)
    given = "--mechanism moments --epsilon 0.5 --flop 1 --batch-size 40"
    world.run(f"experiment --dataset fashion {given} --threads 1 --out run")
    world.run("report run --out page.html")
    files, *others = world.left("run", "page.html", ledger="run/labels.ledger")
    return {name: left for name, left in files.items() if "labels.ledger" not in name}, *others


def test_two_worlds_that_differ_in_labels_alone_leave_the_same_bytes(worlds):  # noqa: F811
    codes = np.random.default_rng(5).integers(0, KINDS, (2, ROWS))
    first, second = worlds(lived, (codes[0], 1.0), (codes[1], 3600.0))
    same(first, second)
    assert "run/model.safetensors" in first[0]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tensorboard": True}, "leave out `tensorboard`"),  # its files tell the second of every epoch
        ({"batch_size": 1000, "accumulate": 100}, "lower `accumulate`"),  # more parts than there are rows
    ],
)
def test_what_would_tell_times_or_cannot_be_trained_is_refused_before_anything_is_paid(tmp_path, change, said):
    with pytest.raises(InputError, match=said):
        experiment(options(tmp_path / "run", **change))
    assert not RunFolder(tmp_path / "run").ledger.exists()
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_a_finished_run_that_says_less_is_still_shown(tmp_path, cli):
    """Of another version, or somebody else's: what may be missing in its summary is missed without a traceback."""
    run = RunFolder(tmp_path / "run")
    experiment(digits(run.path, mechanism="histogram"))
    whole = json.loads(run.summary.read_text())
    command = ("experiment", "--dataset", "digits", "--epsilon", 0.5, "--mechanism", "histogram", "--out", run.path)
    changes = [{"rows_tested": None}, {"folds": None}]
    for name in ("accuracy_test", "accuracy_estimated", "rows_tested", "epoch_selected", "processes", "threads"):
        changes.append({name: "missing"})
    for change in changes:
        said = {name: value for name, value in (whole | change).items() if value != "missing"}
        run.summary.write_text(json.dumps(said))
        code, out, err = cli(*command)
        assert code == 0, (change, err)
        assert "certificate" in out
