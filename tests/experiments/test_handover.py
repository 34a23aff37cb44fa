"""What a stage takes over from the one before, as LP-2ST was published: shares, a sharpened prior, weights, rows that it leaves out."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from labeldp import Ledger, Release
from labeldp.commands import ExperimentOptions, experiment
from labeldp.data.bundled import load
from labeldp.errors import InputError
from labeldp.experiments import staged
from labeldp.experiments.staged import Dealing, Handover
from labeldp.files.predictions import read_predictions
from labeldp.files.run import RunFolder
from labeldp.release.joint import join_releases
from labeldp.runs.job import Job
from labeldp.runs.pretrained import EarlierStage
from labeldp.runs.run import evaluate, predict
from labeldp.training.recipe import changed, default_recipe
from labeldp.training.trainer import Trainer

ROWS, HELD_OUT = 1437, 144

# ── how rows are dealt ──


@pytest.mark.parametrize("holdout", [0.0, 0.1])
@pytest.mark.parametrize(("stages", "share"), [(2, 0.8), (2, 0.6), (3, 0.7)])
def test_the_first_stage_has_its_share_of_the_rows_that_are_trained_on(stages, share, holdout):
    dealing = Dealing(stages, holdout, seed=3, first=share)
    first, *others = dealing.parts(1000)
    assert np.array_equal(np.sort(np.concatenate((first, *others))), np.arange(1000))
    held_out = round(holdout * 1000)
    assert len(first) == held_out + round(share * (1000 - held_out))
    assert max(map(len, others)) - min(map(len, others)) <= 1
    assert dealing.first_share(1000) * len(first) == pytest.approx(held_out)
    assert len(dealing.trained_on(1000)) == 1000 - held_out


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan")])
def test_shares_that_cannot_be(share):
    with pytest.raises(InputError, match="between 0 and 1"):
        Dealing(2, 0.1, 0, share)


def test_a_share_that_leaves_a_stage_without_rows():
    for share in (0.001, 0.999):
        with pytest.raises(InputError, match="too few"):
            Dealing(2, 0.1, 0, share).parts(1000)


# ── priors and rows that are unlikely ──


@pytest.fixture
def priors():
    return np.random.default_rng(0).dirichlet(np.full(10, 0.3), 300).astype(np.float32)


@pytest.mark.parametrize("temperature", [0.5, 0.6, 1.0, 2.0])
def test_a_prior_is_a_power_that_is_normalised(priors, temperature):
    priors[0] = np.eye(10)[3]
    found = Handover(temperature).prior(priors)
    for row, ours in zip(priors.astype(np.float64), found, strict=True):
        powers = [p ** (1 / temperature) for p in row]
        np.testing.assert_allclose(ours, [power / sum(powers) for power in powers], rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(found.argmax(axis=1), priors.argmax(axis=1))


def naive_k(prior, epsilon):
    """The k ≥ 1 with the largest e^ε/(e^ε + k − 1) · (the k largest probabilities)."""
    mass = np.cumsum(sorted(prior.astype(np.float64), reverse=True))
    e = np.exp(epsilon)
    return 1 + max(range(len(prior)), key=lambda k: mass[k] * e / (e + k))


@pytest.mark.parametrize("how", ["row", "mean"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_unlikely_rows_equal_a_loop(priors, how, epsilon):
    rng = np.random.default_rng(1)
    mine, following = priors[:200], priors[200:]
    labels = rng.integers(0, 10, 200)
    found = Handover(drop_unlikely=how).unlikely(np.eye(10)[labels] > 0, mine, following, epsilon)
    mean = int(sum(naive_k(row, epsilon) for row in following) / len(following))
    for row, label, dropped in zip(mine, labels, found, strict=True):
        k = naive_k(row, epsilon) if how == "row" else mean
        assert dropped == (label not in sorted(range(10), key=lambda c: -row[c])[:k])
    assert 0 < found.sum() < 200


def test_several_observed_classes_are_unlikely_only_together():
    prior = np.array([[0.9, 0.05, 0.05]] * 3)
    observed = np.array([[True, True, False], [False, True, True], [False, False, False]])
    found = Handover(drop_unlikely="row").unlikely(observed, prior, prior, 1.0)
    assert found.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0.0}, "positive"),
        ({"temperature": float("inf")}, "positive"),
        ({"drop_unlikely": "some"}, "row or mean"),
    ],
)
def test_what_cannot_be_handed_over(changes, message):
    with pytest.raises(InputError, match=message):
        Handover(**changes)


# ── all of it ──


def options(out, **changes):
    """With a seed for the noise: how many rows are dropped depends on it."""
    usual = ExperimentOptions(
        out=out, dataset="digits", epsilon=2.0, mechanism="response", denoise="none", model="mlp", stages=2, epochs=3, stage_epochs=6,
        stage_share=0.7, prior_temperature=0.6, drop_unlikely="mean", warm_start=True, stage_mixup=16.0, mixup=8.0, learning_rate=0.02,
        insecure_seed=0,
    )  # fmt: skip
    return replace(usual, **changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The run, its summary, and the weights that each of its trainings began with."""
    folder, begun, plain = tmp_path_factory.mktemp("handover") / "run", [], Trainer.fit

    def watched(self, *given):
        begun.append({name: value.clone() for name, value in self.model.state_dict().items()})
        return plain(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "fit", watched)
        summary = experiment(options(folder))
    return folder, summary, begun


@pytest.fixture(scope="module")
def digits():
    return load("digits", None)


def releases(folder):
    return [Release.load(folder / f"released-{number}.parquet") for number in (1, 2)]


def test_every_row_is_charged_once(tmp_path):
    folder = tmp_path / "run"
    summary = experiment(options(folder, insecure_seed=None, epochs=1, stage_epochs=1))
    data_set = Ledger(folder / "labels.ledger").book().data_sets["digits"]
    assert len(data_set.releases) == 2
    assert 1.99 < data_set.spent().pure <= 2.0
    assert 1.99 < summary["certificate"]["epsilon"] <= 2.0
    one, two = releases(folder)
    assert sorted([*one.ids, *two.ids]) == list(range(ROWS))
    assert len(one) == HELD_OUT + round(0.7 * (ROWS - HELD_OUT))


def test_the_prior_is_the_earlier_models_sharpened(run, digits):
    folder, _, _ = run
    prior = read_predictions(folder / "stage-1" / "prior.parquet")
    plain = predict(folder / "stage-1", digits.features[np.array(prior.ids)], model="mlp")
    powers = plain.astype(np.float64) ** (1 / 0.6)
    np.testing.assert_allclose(prior.values, powers / powers.sum(axis=1, keepdims=True), atol=1e-5)
    assert prior.values.max(axis=1).mean() > plain.max(axis=1).mean()


def test_the_second_training_begins_with_the_firsts_weights(run):
    folder, _, (first, second) = run
    earlier = load_file(RunFolder(folder / "stage-1").checkpoint)
    for name, value in second.items():
        assert torch.equal(value, earlier[f"model.{name}"]), name
    assert not all(torch.equal(first[name], value) for name, value in second.items())


def test_each_stage_has_its_own_mixup_and_epochs(run):
    recipes = [json.loads((place / "config.json").read_text())["recipe"] for place in (run[0] / "stage-1", run[0])]
    assert [(recipe["mixup"], recipe["epochs"]) for recipe in recipes] == [(16.0, 6), (8.0, 3)]


def trained(place):
    return set(pq.read_table(place / "trained.parquet").column("id").to_pylist())


def split_of(folder):
    """The last stage's rows, by its configuration."""
    joint = join_releases(releases(folder))
    config = json.loads((folder / "config.json").read_text())
    left_out = np.flatnonzero(np.isin(joint.ids, np.load(folder / "stage-1" / "dropped.npy")))
    recipe = changed(default_recipe("mlp"), denoise="none")
    job = Job(joint, np.zeros((ROWS, 64), np.float32), "mlp", recipe, config["holdout"], left_out=left_out)
    return joint, job.split()


def test_rows_that_judge_shape_nothing_and_are_not_dropped(run):
    folder, summary, _ = run
    joint, split = split_of(folder)
    judges = set(joint.ids[split.report].tolist())
    assert len(judges) == summary["rows_judged"] == HELD_OUT
    assert not judges & (trained(folder) | trained(folder / "stage-1"))
    assert not judges & set(np.load(folder / "stage-1" / "dropped.npy").tolist())
    assert abs(summary["accuracy_estimated"] - summary["accuracy_test"]) < 6 * summary["standard_error"] + 0.1


def test_dropped_are_the_unlikely_rows_of_the_first_release(run, digits):
    """From what was released and public features alone."""
    folder, summary, _ = run
    one, two = releases(folder)
    dropped = np.load(folder / "stage-1" / "dropped.npy")
    following = read_predictions(folder / "stage-1" / "prior.parquet").values
    k = int(sum(naive_k(row, 2.0) for row in np.asarray(following)) / len(two))
    mine = np.array(sorted(trained(folder / "stage-1")))
    probabilities = predict(folder / "stage-1", digits.features[mine], model="mlp")
    label = dict(zip(one.ids.tolist(), one.soft_labels(slice(None), "none").argmax(axis=1).tolist(), strict=True))
    expected = [
        row
        for row, p in zip(mine.tolist(), probabilities, strict=True)
        if label[row] not in sorted(range(10), key=lambda c: -p[c])[:k]
    ]
    assert dropped.tolist() == expected
    assert 0 < len(dropped) < len(mine)
    _, split = split_of(folder)
    assert [stage["rows_dropped"] for stage in summary["stages"]] == [0, len(dropped)]
    assert summary["rows_trained"] == len(split.train) == ROWS - HELD_OUT - len(dropped)


def test_a_dropped_row_does_not_judge_later_either(run):
    """The first stage was trained on it, and with its weights the second began."""
    folder, _, _ = run
    one, _ = releases(folder)
    dropped = set(np.load(folder / "stage-1" / "dropped.npy").tolist())
    assert dropped <= trained(folder)
    with pytest.raises(InputError, match="trained on"):
        evaluate(folder, one, np.zeros((len(one), 64), np.float32), model="mlp")


def test_again_is_free_and_the_same_and_another_handover_is_refused(run):
    folder, summary, _ = run
    again = experiment(options(folder))
    assert again.pop("given").startswith("by its own account")
    assert again == summary
    for changes in (
        {"stage_share": 0.6},
        {"stage_share": None},
        {"prior_temperature": 0.5},
        {"drop_unlikely": "row"},
        {"drop_unlikely": None},
        {"warm_start": False},
    ):
        with pytest.raises(InputError, match="holds another run"):
            experiment(options(folder, **changes))
    with pytest.raises(InputError, match="another mixup"):
        experiment(options(folder, mixup=4.0))


def test_stages_without_any_of_it_are_noted_as_they_always_were(tmp_path):
    """So that a run that began before there was a handover goes on."""
    experiment(ExperimentOptions(out=tmp_path / "run", dataset="digits", epsilon=2.0, model="linear", stages=2))
    said = json.loads((tmp_path / "run" / "stages.json").read_text())
    assert set(said) == {"dataset", "mechanism", "epsilon", "insecure_seed", "stages", "holdout", "seed"}
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert not {"start", "left_out"} & set(config)


def test_a_damaged_list_of_dropped_rows_is_a_sentence(tmp_path):
    run = RunFolder(tmp_path)
    for content in (None, b"", b"rows", "numbers"):
        if content == "numbers":
            np.save(run.dropped, np.array([0.5]))
        elif content is not None:
            run.dropped.write_bytes(content)
        with pytest.raises(InputError, match="missing or damaged"):
            run.read_dropped()


def test_interrupted_it_goes_on_with_the_same_rows(tmp_path, monkeypatch):
    real = staged.train

    def killed(job, folder, **others):
        if folder.name == "run":
            raise KeyboardInterrupt
        return real(job, folder, **others)

    monkeypatch.setattr(staged, "train", killed)
    given = options(tmp_path / "run", stages=3, stage_share=0.5, drop_unlikely="row")
    with pytest.raises(KeyboardInterrupt):
        experiment(given)
    names = [f"stage-{number}/{name}" for number in (1, 2) for name in ("dropped.npy", "prior.parquet")]
    before = {name: (tmp_path / "run" / name).read_bytes() for name in (*names, "released-3.parquet")}
    monkeypatch.setattr(staged, "train", real)
    summary = experiment(given)
    assert before == {name: (tmp_path / "run" / name).read_bytes() for name in before}
    assert len(summary["stages"]) == 3
    # Each stage looks anew at all rows of earlier ones, by the newest model.
    assert summary["stages"][2]["rows_dropped"] == len(np.load(tmp_path / "run" / "stage-2" / "dropped.npy")) > 0


# ── weights of an earlier stage ──


def test_weights_start_only_what_they_may(run, digits):
    folder, _, _ = run
    one, two = releases(folder)
    joint, start = join_releases([one, two]), EarlierStage.of(folder / "stage-1")
    share = json.loads((folder / "config.json").read_text())["holdout"]
    usual = {
        "release": joint, "features": digits.features[joint.ids], "model": "mlp", "recipe": default_recipe("mlp"), "holdout": share,
        "start": start,
    }  # fmt: skip
    Job(**usual)
    Job(**usual | {"holdout": 0.0})
    for changes in (
        {"holdout": 0.1},
        {"recipe": changed(default_recipe("mlp"), seed=1)},
        {"select": "best"},
        {"fold": (0, 2), "holdout": 0.0},
        {"folds": 2, "holdout": 0.0},
    ):
        # Said here too of rows that no prior has seen: the weights have.
        with pytest.raises(InputError, match="judge a model that they shaped"):
            Job(**usual | changes | {"prior_saw_none": True})
    with pytest.raises(InputError, match="missing in the certificate"):
        Job(**usual | {"release": one_alone(digits, folder.parent), "features": digits.features, "holdout": 0.0})
    with pytest.raises(InputError, match="network 'mlp'"):
        Job(**usual | {"model": "linear"})
    with pytest.raises(InputError, match="no finished training"):
        EarlierStage.of(folder / "nowhere")


def one_alone(digits, folder):
    """A release of the same rows that the stage has not seen."""
    from labeldp.mechanisms.plan import calibrate

    mechanism, path = calibrate("response", epsilon=1.0, num_classes=10), folder / "alone"
    path.mkdir()
    return mechanism.release(digits.labels, data_set="alone", ids=list(range(ROWS)), ledger=Ledger(path / "ledger"))


# ── options ──


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stage_share": 0.8}, "`stage_share` is for experiments in stages"),
        ({"prior_temperature": 0.5}, "`prior_temperature` is for"),
        ({"drop_unlikely": "row"}, "`drop_unlikely` is for"),
        ({"warm_start": True}, "`warm_start` is for"),
        ({"stage_mixup": 0.0}, "`stage_mixup` is for"),
        ({"stages": 2, "stage_share": 1.0}, "between 0 and 1"),
        ({"stages": 2, "prior_temperature": -1.0}, "positive"),
        ({"stages": 2, "drop_unlikely": "all"}, "row or mean"),
        ({"stages": 2, "stage_mixup": -1.0}, "`mixup` is not negative"),
        ({"stages": 2, "warm_start": True, "model": "lightgbm"}, "gradient steps; lightgbm is not"),
    ],
)
def test_bad_options_leave_nothing_behind(tmp_path, changes, message):
    given = ExperimentOptions(out=tmp_path / "run", dataset="digits", epsilon=2.0)
    with pytest.raises(InputError, match=message):
        experiment(replace(given, **changes))
    assert not (tmp_path / "run").exists()


def test_a_linear_model_that_starts_warm_is_trained_by_steps(tmp_path):
    summary = experiment(
        ExperimentOptions(
            out=tmp_path / "run", dataset="digits", epsilon=4.0, model="linear", stages=2, warm_start=True, drop_unlikely="row"
        )
    )  # fmt: skip
    assert RunFolder(tmp_path / "run" / "stage-1").checkpoint.exists()
    assert summary["accuracy_test"] > 0.8
