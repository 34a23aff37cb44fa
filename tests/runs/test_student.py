"""A student learns what a model of one statistic says of public images: all of it follows from that statistic."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from labeldp.data.features import Features
from labeldp.errors import InputError
from labeldp.features.encoder import Encoder, EncoderRecipe, learned_encoder
from labeldp.files.run import RunFolder
from labeldp.release.sealed import shapes, write_sealed
from labeldp.report.page import Report
from labeldp.runs.pretrained import Pretrained
from labeldp.runs.run import predict
from labeldp.runs.student import StudentJob, epochs_for, train_student
from labeldp.statistics import histogram, moments
from labeldp.statistics.reading import load_fittable
from labeldp.training.loss import PosteriorLoss, SoftLabelLoss
from labeldp.training.recipe import student_recipe
from labeldp.training.trainer import Trainer
from tests.runs.stripes import KINDS, stripes

ROWS = 120
IMAGES, LABELS = stripes(ROWS)
FEATURES = Features(IMAGES, np.array([f"i{row}.png" for row in range(ROWS)], dtype=object), named=True)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    learned_encoder(IMAGES, folder, EncoderRecipe("contrastive", 1))
    return folder


@pytest.fixture(scope="module", params=[moments, histogram], ids=["moments", "histogram"])
def statistic(request, encoder, tmp_path_factory):
    """A file; made from the features in another order, as `labeldp moments` does, which goes by id."""
    folder, x = tmp_path_factory.mktemp("statistic"), Encoder.load(encoder).transform(IMAGES)
    order = np.random.default_rng(1).permutation(ROWS)
    made = request.param(
        x[order], LABELS[order], ids=FEATURES.ids[order].tolist(), num_classes=KINDS, epsilon=8.0, data_set="stripes",
        ledger=folder / "l.ledger",
    )  # fmt: skip
    made.save(folder / "statistic.parquet")
    return folder / "statistic.parquet"


def job_of(statistic, encoder, **changes):
    recipe = student_recipe(KINDS, epochs=2, batch_size=40, **changes.pop("recipe", {}))
    job = StudentJob(load_fittable(statistic), FEATURES, Encoder.load(encoder), Pretrained.of(encoder), recipe)
    return replace(job, **changes)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def test_soft_labels_are_the_fits_probabilities_and_all_that_training_sees(statistic, encoder, tmp_path, monkeypatch):
    seen = []
    plain = Trainer.fit

    def watched(self, features, rows, evidence, *more):
        seen.append(
            (features.numpy(), rows, evidence(rows), {k: v.clone() for k, v in self.model.state_dict().items()})
        )
        return plain(self, features, rows, evidence, *more)

    monkeypatch.setattr(Trainer, "fit", watched)
    made = load_fittable(statistic)
    summary = train_student(job_of(statistic, encoder), tmp_path / "run", path=statistic)
    ((images, rows, evidence, begun),) = seen
    x = Encoder.load(encoder).transform(IMAGES)
    np.testing.assert_allclose(np.exp(evidence), made.fit(x).probabilities(x), rtol=1e-5, atol=1e-7)
    assert (images == IMAGES).all()
    assert (rows == np.arange(ROWS)).all()
    for name, value in Encoder.load(encoder).contrast.network.state_dict().items():
        if not name.startswith("head"):
            assert (begun[name] == value).all(), name
    assert summary["certificate"] == made.certificate()
    assert (summary["trust"], summary["insecure"], summary["release"]) == ("central", None, made.checksum)
    assert summary["releases"] == [made.checksum]
    assert summary["start_flop"] == Encoder.load(encoder).flop > 0
    assert summary["train_flop"] > 0
    assert (summary["model"], summary["rows_trained"], summary["seconds"]) == ("fast", ROWS, None)


def test_the_loss_is_cross_entropy_against_the_soft_labels():
    rng = np.random.default_rng(0)
    soft = rng.dirichlet(np.ones(5), 20).astype(np.float32)
    soft[0] = [0, 1, 0, 0, 0]
    logits = torch.from_numpy(rng.normal(size=(20, 5)).astype(np.float32))
    with np.errstate(divide="ignore"):
        evidence = np.log(soft)
    assert PosteriorLoss("sum")(logits, evidence, torch.zeros_like(logits)).item() == pytest.approx(
        SoftLabelLoss()(logits, soft).item(), rel=1e-5
    )


def test_an_ordinary_run_found_again_predicted_with_and_reported(statistic, encoder, tmp_path):
    run = tmp_path / "run"
    test = stripes(60, seed=7)
    first = train_student(job_of(statistic, encoder), run, path=statistic, public_test=test)
    assert 0 <= first["accuracy_test_fitted"] <= 1
    assert first["rows_tested"] == 60
    said = predict(run, test[0])
    assert said.shape == (60, KINDS)
    assert (said.argmax(axis=1) == test[1]).mean() == pytest.approx(first["accuracy_test"])
    before = files(run)
    assert train_student(job_of(statistic, encoder), run, path=statistic) == first
    assert files(run) == before
    (shown,) = Report.of([run]).to_json()["runs"]
    assert shown["checked"]
    assert shown["certificate"]["epsilon"] == first["certificate"]["epsilon"]
    ids, trained = RunFolder(run).read_trained()
    assert trained.by_id
    assert ids.to_pylist() == FEATURES.ids.tolist()


def test_a_report_computes_the_certificate_anew(statistic, encoder, tmp_path):
    run = RunFolder(tmp_path / "run")
    train_student(job_of(statistic, encoder), run.path, path=statistic)
    said = json.loads(run.summary.read_text())
    said["certificate"]["epsilon"] /= 2
    run.summary.write_text(json.dumps(said))
    with pytest.raises(InputError, match="another certificate"):
        Report.of([run.path])
    with pytest.raises(InputError, match="another certificate"):
        train_student(job_of(statistic, encoder), run.path)


def test_killed_it_goes_on_after_the_last_finished_epoch(statistic, encoder, tmp_path):
    whole = train_student(job_of(statistic, encoder), tmp_path / "whole", path=statistic)

    def killed(metrics):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_student(job_of(statistic, encoder), tmp_path / "cut", path=statistic, progress=killed)
    epochs = []
    went_on = train_student(job_of(statistic, encoder), tmp_path / "cut", path=statistic, progress=epochs.append)
    assert [metrics["epoch"] for metrics in epochs] == [2]
    assert went_on == whole
    assert files(tmp_path / "cut")["model.safetensors"] == files(tmp_path / "whole")["model.safetensors"]
    assert [metrics["epoch"] for metrics in RunFolder(tmp_path / "cut").history()] == [1, 2]


def test_another_recipe_is_another_run(statistic, encoder, tmp_path):
    train_student(job_of(statistic, encoder), tmp_path / "run")
    with pytest.raises(InputError, match="another mixup"):
        train_student(job_of(statistic, encoder, recipe={"mixup": 0.5}), tmp_path / "run")
    with pytest.raises(InputError, match="another features"):
        train_student(job_of(statistic, encoder, images=replace(FEATURES, values=IMAGES[::-1])), tmp_path / "run")


@pytest.mark.parametrize("change", ["fewer", "others"])
def test_other_images_begin_no_run(statistic, encoder, tmp_path, change):
    others = IMAGES[:-1] if change == "fewer" else stripes(ROWS, seed=5)[0] // 2
    given = Features(others, np.arange(len(others)))
    with pytest.raises(InputError, match=r"over 120 rows|not the (features|rows)|other (features|rows)"):
        train_student(job_of(statistic, encoder, images=given), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_is_no_student_is_said(statistic, encoder):
    with pytest.raises(InputError, match="images of bytes"):
        job_of(statistic, encoder, images=Features(np.zeros((ROWS, 9), np.float32), np.arange(ROWS)))
    with pytest.raises(InputError, match=r"images of shape \(3, 17, 17\)"):
        job_of(statistic, encoder, images=Features(np.zeros((ROWS, 3, 18, 18), np.uint8), np.arange(ROWS)))
    with pytest.raises(InputError, match="as they are"):
        job_of(statistic, encoder, recipe={"prior": "model"})


def test_an_insecure_statistic_makes_an_insecure_run(statistic, encoder, tmp_path):
    made = load_fittable(statistic)
    header = {**made.header, "insecure": "the noise comes from a known seed", "arrays": shapes(made._arrays)}
    with (tmp_path / "m.parquet").open("wb") as file:
        write_sealed(file, header, made._arrays)
    summary = train_student(job_of(tmp_path / "m.parquet", encoder), tmp_path / "run")
    assert summary["certificate"]["epsilon"] is None
    assert summary["insecure"]


def test_flop_are_whole_epochs():
    one = epochs_for(1.0, "fast", IMAGES, KINDS)
    assert one == 1
    many = epochs_for(1e12, "fast", IMAGES, KINDS)
    assert epochs_for(2e12, "fast", IMAGES, KINDS) == pytest.approx(2 * many, abs=1)
    assert epochs_for(1e12, "fast", IMAGES[:60], KINDS) == pytest.approx(2 * many, abs=1)


@pytest.mark.parametrize("model", ["fast", "fast-medium", "fast-wide"])
def test_every_width_has_the_same_recipe(model):
    recipe = student_recipe(100)
    assert (recipe.epochs, recipe.prior, recipe.denoise) == (6, "none", "bayes")
    assert recipe.learning_rate > student_recipe(10).learning_rate
