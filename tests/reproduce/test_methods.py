"""The paper's scale, which nobody runs in a test: every cell's training is built, and takes a step on a few images."""

import numpy as np
import pytest
import torch

import labeldp.runs.crossfit  # noqa: F401  before `train` is replaced: imported meanwhile, it would keep the replacement
from labeldp import models
from labeldp.data.bundled import Bundled
from labeldp.private import PrivateLabels
from labeldp.reproduce.methods import CLASSES
from labeldp.reproduce.names import NAMES, plan
from tests.commands.test_presets import row

ROWS = 8


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """A few random images instead of CIFAR, one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)

    def load(name, folder=None):
        drawn, classes = np.random.default_rng(0), CLASSES[name]
        images, labels = drawn.integers(0, 256, (ROWS, 3, 32, 32), np.uint8), drawn.integers(0, classes, ROWS)
        return Bundled(name, images, PrivateLabels(labels, classes), images[:4], labels[:4].astype(np.int64))

    for module in ("experiments.experiment", "experiments.staged", "pate.material"):
        monkeypatch.setattr(f"labeldp.{module}.load", load)
    yield
    torch.set_num_threads(before)


def every(kind):
    """Cells of the paper's scale by `labeldp experiment` or `labeldp pate run`, each once; of repetitions, the first."""
    cells = {
        cell.name: cell for name in NAMES for cell in plan(name, "paper").cells() if cell.name.startswith("paper-")
    }
    return [
        cell
        for cell in cells.values()
        if cell.arguments[0] == kind and ("-apart" not in cell.name or "-apart1of" in cell.name)
    ]


def named(cells):
    return pytest.mark.parametrize("cell", cells, ids=lambda cell: cell.name)


class Built(Exception):  # noqa: N818
    """Far enough."""


def few(cell):
    return ("--canaries", 4) if "--canaries" in cell.arguments else ()


@named(every("experiment"))
def test_every_training_is_built(cell, tmp_path, cli, monkeypatch):
    """The job that the command line makes: model, recipe and mechanism are those of the paper's row."""
    jobs = []

    def stop(job, *_, **__):
        jobs.append(job)
        raise Built

    monkeypatch.setattr("labeldp.runs.run.train", stop)
    monkeypatch.setattr("labeldp.experiments.staged.train", stop)
    monkeypatch.setenv("LABELDP_DEBUG", "1")
    with pytest.raises(Built):
        cli(*cell.command(tmp_path), *few(cell))
    (job,) = jobs
    preset, recipe = row(cell.arguments[cell.arguments.index("--preset") + 1])
    assert job.model == ("resnet18" if "resnet18" in cell.name else preset.model)
    assert preset.dataset == cell.dataset
    for name in ("batch_size", "learning_rate", "weight_decay", "schedule", "momentum", "shift", "flip"):
        assert getattr(job.recipe, name) == getattr(recipe, name)
    assert job.recipe.epochs == (200 if "--stage-epochs" not in cell.arguments else 150)
    assert job.holdout == 0.0
    guarantee = job.release.mechanism.guarantee() if cell.epsilon is not None else None
    if guarantee is not None:
        assert 0.99 * cell.epsilon < guarantee.epsilon <= cell.epsilon
        assert guarantee.delta == (1e-5 if cell.method == "agibi" else 0.0)
    assert job.recipe.denoise == {"lp-2st-hard": "none", "min-projection": "min-projection"}.get(cell.method, "bayes")
    with torch.device("meta"):
        models.build(job.model, (3, 32, 32), CLASSES[cell.dataset])


@pytest.mark.slow
@named(every("experiment"))
def test_a_training_takes_a_step(cell, tmp_path, cli):
    staged = ("--stage-epochs", 1) if "--stages" in cell.arguments else ()
    code, _, err = cli(*cell.command(tmp_path), *few(cell), "--epochs", 1, "--batch-size", 8, "--threads", 1, *staged)
    assert code == 0, err
    summary = cell.summary(tmp_path)
    assert summary["train_flop"] > 0
    assert summary["epochs"] == 1


@named(every("pate"))
def test_every_ensemble_is_built(cell, tmp_path, cli, monkeypatch):
    plans = []

    def stop(stages, teachers, *_, **__):
        plans.append((stages, teachers))
        raise Built

    monkeypatch.setattr("labeldp.pate.run.Stages.teachers", stop)
    monkeypatch.setenv("LABELDP_DEBUG", "1")
    with pytest.raises(Built):
        cli(*cell.command(tmp_path), *few(cell), "--max-asked", 8, "--max-answered", 4)
    ((stages, teachers),) = plans
    cifar10 = cell.dataset == "cifar10"
    assert teachers.model == ("wide-resnet-28-4" if cifar10 else "wide-resnet-28-8")
    assert teachers.recipe.epochs == (40 if cifar10 else 125)
    assert teachers.recipe.unlabelled == 7
    assert (stages.material.canaries is not None) == ("--canaries" in cell.arguments)


@pytest.mark.slow
@named(every("pate"))
def test_an_ensemble_takes_a_step(cell, tmp_path, cli, monkeypatch):
    """Two teachers and a student, of few rows a step."""
    from labeldp.pate import presets

    usual = presets.fixmatch_recipe
    monkeypatch.setattr(presets, "fixmatch_recipe", lambda *a, **k: usual(*a, **k | {"batch_size": 4, "unlabelled": 1}))
    code, _, err = cli(
        *cell.command(tmp_path), *few(cell), "--teachers", 2, "--epochs", 1, "--max-asked", 4, "--max-answered", 4, "--threshold", 0,
        "--sigma1", 1, "--students", 1, "--student-epochs", 1, "--processes", 0,
    )  # fmt: skip
    assert code == 0, err
    assert cell.summary(tmp_path)["teachers_flop"] > 0
