import dataclasses
import json

import numpy as np
import pytest
import torch

from labeldp import PrivateLabels, SecureEntropy, models
from labeldp.errors import InputError
from labeldp.machine import choose_device, choose_dtype
from labeldp.mechanisms.plan import calibrate
from labeldp.training.augment import flip, shift
from labeldp.training.recipe import Recipe, default_recipe
from labeldp.training.trainer import Trainer

CPU = torch.device("cpu")


def blobs(rows=1200, classes=4, seed=0):
    """Features around a centre for each class, and evidence from a release of their labels."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, 8)) * 3
    labels = rng.integers(0, classes, rows)
    mechanism = calibrate("subset", epsilon=2.0, num_classes=classes)
    observations = mechanism.observe_uncharged(PrivateLabels(labels, classes), SecureEntropy())
    features = (centres[labels] + rng.normal(size=(rows, 8))).astype(np.float32)
    return torch.from_numpy(features), labels, lambda chosen: mechanism.evidence(observations[chosen])


def trainer(name="linear", **changes):
    torch.manual_seed(0)
    recipe = dataclasses.replace(Recipe(6, 100, 0.1), **changes)
    return Trainer(models.build(name, (8,), 4), recipe, CPU, torch.float32)


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_it_learns_from_evidence_alone(name):
    features, labels, evidence = blobs()
    made = trainer(name)
    made.prepare(features)
    metrics = list(made.fit(features, np.arange(1000), evidence))
    assert [m["epoch"] for m in metrics] == [1, 2, 3, 4, 5, 6]
    assert metrics[-1]["loss"] < metrics[0]["loss"]
    probabilities = made.probabilities(features[1000:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert (probabilities.argmax(axis=1) == labels[1000:]).mean() > 0.95
    assert made.flop == 6 * 1000 * 3 * 2 * (8 * 4 if name == "linear" else 8 * 4 + 8 * 64 + 64 * 4)


def test_mixed_pairs_are_learned_from_as_well():
    features, labels, evidence = blobs()
    made = trainer("mlp", mixup=0.5)
    made.prepare(features)
    list(made.fit(features, np.arange(1000), evidence))
    assert (made.probabilities(features[1000:]).argmax(axis=1) == labels[1000:]).mean() > 0.95


def test_the_loss_of_mixed_rows_is_the_mixed_loss():
    features, _, evidence = blobs()
    made, rows = trainer(mixup=1.0), np.arange(100)
    made.prepare(features)
    torch.nn.init.normal_(made.model.head.weight, generator=torch.Generator().manual_seed(2))
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    found = made._step(made.model, features, rows, evidence, torch.Generator().manual_seed(3))
    made.model.load_state_dict(before)
    generator = torch.Generator().manual_seed(3)
    partners = torch.randperm(100, generator=generator).numpy()
    seed = int(torch.randint(1 << 62, (), generator=generator))
    share = np.random.default_rng(seed).beta(1.0, 1.0)
    x = share * features[rows] + (1 - share) * features[partners]
    log_p = torch.log_softmax(made.model(x), dim=1).double()
    losses = [-torch.logsumexp(log_p + torch.from_numpy(evidence(some)), dim=1).mean() for some in (rows, partners)]
    assert float(found) == pytest.approx((share * losses[0] + (1 - share) * losses[1]).item(), rel=1e-5)


@pytest.mark.parametrize("mixup", [0.0, 1.0])
def test_consistency_is_with_what_the_average_believes(mixup):
    """−log p(observation) + λ·cross-entropy against the averaged model's output, sharpened and held fixed; mixed as losses are."""
    features, _, evidence = blobs()
    made, rows = trainer(mixup=mixup, average=0.5, consistency=0.7), np.arange(100)
    made.prepare(features)
    for number, model in enumerate((made.model, made.averaged.module)):
        torch.nn.init.normal_(model.head.weight, generator=torch.Generator().manual_seed(number))
    weights = made.model.head.weight.detach().clone().requires_grad_()
    before = made.model.head.bias.detach().clone()
    with torch.no_grad():
        believed = torch.softmax(made.averaged(features[rows]), dim=1) ** 2  # temperature ½
        believed /= believed.sum(dim=1, keepdim=True)
    found = made._step(made.model, features, rows, evidence, torch.Generator().manual_seed(3))
    gradient = made.model.head.weight.grad.clone()
    made.model.head.bias.data.copy_(before)

    generator, share, partners = torch.Generator().manual_seed(3), 1.0, rows
    if mixup:
        partners = torch.randperm(100, generator=generator).numpy()
        share = np.random.default_rng(int(torch.randint(1 << 62, (), generator=generator))).beta(1.0, 1.0)
    x = share * features[rows] + (1 - share) * features[partners]
    log_p = torch.log_softmax(torch.func.functional_call(made.model, {"head.weight": weights}, (x,)), dim=1)

    def naive(some):
        known = torch.from_numpy(evidence(some)).float()
        return (-torch.logsumexp(log_p + known, dim=1) - 0.7 * (believed[some] * log_p).sum(dim=1)).mean()

    loss = share * naive(rows) + (1 - share) * naive(partners)
    loss.backward()
    assert float(found) == pytest.approx(loss.item(), rel=1e-4)
    torch.testing.assert_close(gradient, weights.grad, rtol=1e-3, atol=1e-5)


def test_strong_views_and_consistency_begin_late():
    features, _, evidence = blobs()
    made = trainer("mlp", average=0.9, consistency=1.0, strong_from=0.5)
    assert [made.recipe.strong_in(epoch) for epoch in range(6)] == [False] * 3 + [True] * 3
    made.prepare(features)
    plain = trainer("mlp", average=0.9)
    plain.prepare(features)
    ours, theirs = (some.fit(features, np.arange(1000), evidence) for some in (made, plain))
    losses = [(next(ours)["loss"], next(theirs)["loss"]) for _ in range(4)]
    assert [a == b for a, b in losses] == [True] * 3 + [False]
    assert made.flop == plain.flop * 13 // 12


def test_images_are_plain_until_then():
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (8, 3, 17, 17), dtype=np.uint8))
    recipe = Recipe(4, 4, 0.1, randaugment=2, cutout=6, strong_from=0.5)
    made = Trainer(models.build("fast", (3, 17, 17), 4), recipe, CPU, torch.float32)
    made.prepare(images)
    for epoch, plain in ((1, True), (2, False)):
        made.epoch = epoch
        seen = made._augmented(images, np.arange(8), torch.Generator().manual_seed(0))
        assert torch.equal(seen, made._input(images)) == plain


def test_consistent_models_learn_and_go_on_where_they_were(tmp_path):
    features, labels, evidence = blobs()
    whole, first, second = (trainer("mlp", average=0.9, consistency=1.0) for _ in range(3))
    for made in (whole, first):
        made.prepare(features)
    list(whole.fit(features, np.arange(1000), evidence))
    assert (whole.probabilities(features[1000:]).argmax(axis=1) == labels[1000:]).mean() > 0.95
    assert whole.flop == 6 * 1000 * 4 * 2 * (8 * 4 + 8 * 64 + 64 * 4)  # three passes, and the averaged model's
    epochs = first.fit(features, np.arange(1000), evidence)
    next(epochs)
    first.save(tmp_path / "model.safetensors")
    second.load(tmp_path / "model.safetensors")
    list(second.fit(features, np.arange(1000), evidence))
    np.testing.assert_array_equal(second.probabilities(features), whole.probabilities(features))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"consistency": -1.0, "average": 0.9}, "not negative"),
        ({"consistency": 1.0}, "averaged model"),
        ({"consistency": 1.0, "average": 0.9, "strong_from": 1.0}, "share of the epochs"),
        ({"consistency": 1.0, "average": 0.9, "unlabelled": 7}, "FixMatch"),
    ],
)
def test_consistency_that_cannot_be(changes, words):
    with pytest.raises(InputError, match=words):
        dataclasses.replace(Recipe(6, 100, 0.1), **changes)


def test_the_same_seed_gives_the_same_model():
    features, _, evidence = blobs()
    outputs = []
    for seed in (1, 1, 2):
        made = trainer("mlp", seed=seed)
        made.prepare(features)
        list(made.fit(features, np.arange(1000), evidence))
        outputs.append(made.probabilities(features))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert (outputs[0] != outputs[2]).any()


def test_resumed_is_as_if_never_interrupted(tmp_path):
    features, _, evidence = blobs()
    whole = trainer("mlp")
    whole.prepare(features)
    list(whole.fit(features, np.arange(1000), evidence))
    first = trainer("mlp")
    first.prepare(features)
    epochs = first.fit(features, np.arange(1000), evidence)
    for _ in range(3):
        next(epochs)
    first.save(tmp_path / "model.safetensors")
    torch.manual_seed(99)
    second = trainer("mlp")
    second.load(tmp_path / "model.safetensors")
    assert second.epoch == 3
    list(second.fit(features, np.arange(1000), evidence))
    np.testing.assert_array_equal(second.probabilities(features), whole.probabilities(features))
    assert second.flop == whole.flop


def test_equal_runs_leave_equal_bytes(tmp_path):
    """The library writes a file's description in any order: by chance alone ten files would be equal once in 500 times."""
    features, _, evidence = blobs(400)
    files = set()
    for _ in range(10):
        made = trainer("mlp", average=0.9, epochs=1)
        made.prepare(features)
        list(made.fit(features, np.arange(400), evidence))
        made.save(tmp_path / "model.safetensors")
        files.add((tmp_path / "model.safetensors").read_bytes())
    assert len(files) == 1
    fresh = trainer("mlp", average=0.9, epochs=1)
    fresh.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(fresh.probabilities(features), made.probabilities(features))
    assert (fresh.epoch, fresh.flop) == (1, made.flop)


def test_a_foreign_checkpoint_is_refused(tmp_path):
    made = trainer("mlp")
    made.save(tmp_path / "mlp.safetensors")
    with pytest.raises(InputError, match="not a checkpoint of this model"):
        trainer("linear").load(tmp_path / "mlp.safetensors")
    (tmp_path / "x").write_text(json.dumps({"a": 1}))
    with pytest.raises(InputError, match="not a checkpoint"):
        trainer("mlp").load(tmp_path / "x")


def test_divergence_is_said():
    features, _, evidence = blobs()
    made = trainer("linear", learning_rate=1e30)
    with pytest.raises(InputError, match="diverged"):
        list(made.fit(features, np.arange(1000), evidence))


def test_fast_trains_on_images_and_whitens_without_labels():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 256)
    images = rng.integers(0, 60, (256, 3, 20, 20)).astype(np.uint8)
    images[labels == 1, :, :10] += 120
    mechanism = calibrate("response", epsilon=4.0, num_classes=2)
    observations = mechanism.observe_uncharged(PrivateLabels(labels, 2), SecureEntropy())
    torch.manual_seed(0)
    recipe = dataclasses.replace(default_recipe("fast"), epochs=4, batch_size=64, learning_rate=0.1)
    made = Trainer(models.build("fast", (3, 20, 20), 2), recipe, CPU, torch.float32)
    x = torch.from_numpy(images)
    made.prepare(x)
    whitened = made.model.whiten(made._input(x)).permute(1, 0, 2, 3).flatten(1)[:12]
    variance = whitened.pow(2).mean(dim=1)
    assert (variance > 0.5).all()
    assert (variance < 1.01).all()
    list(made.fit(x, np.arange(256), lambda rows: mechanism.evidence(observations[rows])))
    assert (made.probabilities(x).argmax(axis=1) == labels).mean() > 0.95
    assert not made.model.whiten.weight.requires_grad


def test_fast_costs_what_it_says():
    """51 MFLOP an image, forward: 6e13 FLOP are 8 epochs of CIFAR-10."""
    made = Trainer(models.build("fast", (3, 32, 32), 10), default_recipe("fast"), CPU, torch.float32)
    assert made.training_flop(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)) * 50_000 * 8 == pytest.approx(
        6.2e13, rel=0.03
    )


def test_shift_equals_image_by_image():
    images = torch.randn(50, 3, 8, 8)
    generator = torch.Generator().manual_seed(3)
    moved = shift(images, 2, generator)
    down, right = torch.randint(0, 5, (2, 50), generator=torch.Generator().manual_seed(3))
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2), mode="reflect")
    for i in range(50):
        torch.testing.assert_close(moved[i], padded[i, :, down[i] : down[i] + 8, right[i] : right[i] + 8])
    assert len({(int(a), int(b)) for a, b in zip(down, right, strict=True)}) > 10


def test_flip_mirrors_only_the_marked():
    images = torch.randn(4, 1, 3, 3)
    marked = torch.tensor([True, False, True, False])
    flipped = flip(images, marked)
    torch.testing.assert_close(flipped[1], images[1])
    torch.testing.assert_close(flipped[0], images[0].flip(2))


def test_devices_and_types():
    assert choose_device("cpu") == CPU
    assert choose_dtype(CPU) in (torch.float32, torch.bfloat16)
    assert choose_dtype(CPU, "float32") == torch.float32
    with pytest.raises(InputError, match="not there"):
        choose_device("cuda:99")
    with pytest.raises(InputError, match="`dtype` takes"):
        choose_dtype(CPU, "int8")


@pytest.mark.parametrize("changes", [
    {"epochs": 0}, {"batch_size": 1}, {"learning_rate": 0.0}, {"average": 1.0}, {"prior": "mine"}, {"prior": "average"},
    {"accumulate": 51}, {"accumulate": 0}, {"cutout": -1}, {"seed": -1}, {"schedule": "up"},
])  # fmt: skip
def test_bad_recipes(changes):
    with pytest.raises(InputError):
        dataclasses.replace(Recipe(6, 100, 0.1), **changes)


def test_models_by_name_and_path():
    assert models.build("tests.training.test_trainer:made_here", (8,), 3).out_features == 3
    for name, shape in (("fast", (8,)), ("fast", (3, 8, 8)), ("magic", (8,)), ("no.such:Thing", (8,))):
        with pytest.raises(InputError):
            models.build(name, shape, 3)


def made_here(shape, num_classes):
    return torch.nn.Linear(shape[0], num_classes)


def weights(made):
    return torch.cat([p.detach().flatten() for p in made.model.parameters()])


def test_parts_of_a_step_add_up():
    features, _, evidence = blobs()
    results = []
    for accumulate in (1, 3):
        made = trainer("linear", accumulate=accumulate)
        list(made.fit(features, np.arange(1000), evidence))
        results.append(weights(made))
    torch.testing.assert_close(results[0], results[1], atol=1e-5, rtol=1e-4)


def test_an_average_is_what_it_says(tmp_path):
    """Against a hand-kept average; predictions come from it, and a checkpoint brings it back."""
    features, _, evidence = blobs()
    made = trainer("linear", average=0.9, epochs=2)
    plain = trainer("linear", epochs=2)
    seen = []
    steps = plain._optimizer.step
    plain._optimizer.step = lambda: (steps(), seen.append(weights(plain).clone()))
    list(plain.fit(features, np.arange(1000), evidence))
    list(made.fit(features, np.arange(1000), evidence))
    expected = seen[0]
    for step, weight in enumerate(seen[1:], 1):
        kept = min(0.9, (1 + step) / (10 + step))
        expected = kept * expected + (1 - kept) * weight
    averaged = torch.cat([p.detach().flatten() for p in made.averaged.module.parameters()])
    torch.testing.assert_close(averaged, expected)
    torch.testing.assert_close(weights(made), weights(plain))
    assert (made.probabilities(features) != plain.probabilities(features)).any()
    made.save(tmp_path / "m.safetensors")
    again = trainer("linear", average=0.9, epochs=2)
    again.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.probabilities(features), made.probabilities(features))


@pytest.mark.parametrize("prior", ["model", "average", "none"])
def test_every_prior_learns_and_they_differ(prior):
    features, labels, evidence = blobs()
    made = trainer("linear", prior=prior, average=0.9)
    list(made.fit(features, np.arange(1000), evidence))
    assert (made.probabilities(features[1000:]).argmax(axis=1) == labels[1000:]).mean() > 0.9
    other = trainer("linear", average=0.9)
    list(other.fit(features, np.arange(1000), evidence))
    assert (weights(made) == weights(other)).all() == (prior == "model")


def test_each_half_of_the_rows_is_mirrored_every_other_epoch():
    from labeldp.training.trainer import _halves

    for seed in (0, 1, 2**31):
        half = _halves(np.arange(10_000), seed)
        assert abs(half.mean() - 0.5) < 0.03  # 6 standard deviations
        assert abs(np.corrcoef(half[1:], half[:-1])[0, 1]) < 0.06
    assert (_halves(np.arange(100), 0) != _halves(np.arange(100), 1)).any()


@pytest.mark.parametrize("changes", [{"randaugment": 2}, {"cutout": 8}, {"mirror": "coin"}])
def test_augmentations_train(changes):
    images = torch.randint(0, 256, (64, 3, 20, 20), dtype=torch.uint8)
    evidence = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    recipe = dataclasses.replace(default_recipe("fast"), epochs=1, batch_size=32, **changes)
    made = Trainer(models.build("fast", (3, 20, 20), 3), recipe, CPU, torch.float32)
    made.prepare(images)
    assert np.isfinite(next(made.fit(images, np.arange(64), lambda rows: evidence[rows]))["loss"])
    if "randaugment" in changes:
        with pytest.raises(InputError, match="images of bytes"):
            next(Trainer(models.build("fast", (3, 20, 20), 3), recipe, CPU, torch.float32).fit(
                images.float(), np.arange(64), lambda rows: evidence[rows]))  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # inside torch.compile
def test_a_compiled_model_is_the_same_model(tmp_path):
    features, _, evidence = blobs()
    results = []
    for compiled in (False, True):
        made = trainer("mlp")
        made.compile = compiled
        made.prepare(features)
        list(made.fit(features, np.arange(1000), evidence))
        results.append(made.probabilities(features))
        made.save(tmp_path / f"{compiled}.safetensors")
        trainer("mlp").load(tmp_path / f"{compiled}.safetensors")
    np.testing.assert_allclose(results[0], results[1], atol=1e-3)
