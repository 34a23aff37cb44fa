"""FixMatch against naive references, and against learning from the labelled rows alone."""

import dataclasses
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch.nn import functional

import labeldp
from labeldp import PrivateLabels, SecureEntropy, models
from labeldp.errors import InputError
from labeldp.mechanisms import NoPrivacy
from labeldp.runs.job import Job
from labeldp.runs.networks import trainer_of
from labeldp.runs.run import predict, train
from labeldp.training import augment, fixmatch
from labeldp.training import augment as operations
from labeldp.training.fixmatch import FixMatchTrainer, PseudoLabels
from labeldp.training.loss import PosteriorLoss
from labeldp.training.recipe import Recipe, cpu_fixmatch_recipe, default_recipe, fixmatch_recipe
from labeldp.training.trainer import Trainer

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits():
    """Features, labels, and clean labels as evidence."""
    data = load_digits()
    mechanism = NoPrivacy(10)
    observations = mechanism.observe_uncharged(PrivateLabels(data.target, 10), SecureEntropy())
    features = torch.from_numpy(data.data.astype(np.float32))
    return features, data.target, lambda rows: mechanism.evidence(observations[rows])


def few(labels, each=4, seed=0):
    """So many rows of each class."""
    rng = np.random.default_rng(seed)
    return np.sort(np.concatenate([rng.permutation(np.nonzero(labels == c)[0])[:each] for c in range(10)]))


def made(name="mlp", kind=FixMatchTrainer, **changes):
    torch.manual_seed(0)
    recipe = fixmatch_recipe(name, 10, **{"epochs": 3, "batch_size": 32, "unlabelled": 3, **changes})
    return kind(models.build(name, (64,), 10), recipe, CPU, torch.float32)


def accuracy(trainer, features, labels):
    return (trainer.probabilities(features).argmax(axis=1) == labels).mean()


def weights(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


# ── what it learns ──


@pytest.mark.parametrize("changes", [{}, {"alignment": "uniform", "adaptive": True, "strong_labelled": True}])
def test_it_learns_more_than_the_labelled_rows_tell(digits, changes):
    features, labels, evidence = digits
    rows = few(labels)
    with_all = made(epochs=25, **changes)
    with_all.prepare(features)
    metrics = list(with_all.fit(features, rows, evidence))
    assert set(metrics[0]) == {"epoch", "loss", "loss_unlabelled", "mask", "seconds"}
    assert metrics[-1]["mask"] > metrics[0]["mask"]
    alone = made(kind=Trainer, unlabelled=0, batch_size=32, epochs=25 * 18)  # as many steps
    alone.prepare(features)
    list(alone.fit(features, rows, evidence))
    assert accuracy(with_all, features, labels) > accuracy(alone, features, labels) + 0.03


def test_fewer_labels_than_a_batch(digits):
    """Ten labels fill a batch of 32: each three or four times, in cycles."""
    features, labels, evidence = digits
    asked = []
    trainer = made(epochs=1)
    list(trainer.fit(features, few(labels, 1), lambda rows: (asked.append(rows), evidence(rows))[1]))
    asked = asked[1:]  # first it is seen which rows have anything to say
    assert [len(rows) for rows in asked] == [32] * (1797 // 96)
    drawn = np.concatenate(asked)
    for cycle in range(len(drawn) // 10):
        assert (np.sort(drawn[10 * cycle : 10 * cycle + 10]) == few(labels, 1)).all()
    assert (drawn[:10] != drawn[10:20]).any()


def test_rows_that_say_nothing_are_unlabelled(digits):
    """As where a release has answers for some rows only: evidence 0 for all classes."""
    features, labels, evidence = digits
    answered = few(labels)
    silent = ~np.isin(np.arange(len(labels)), answered)
    results = []
    for rows, table in (
        (answered, evidence),
        (np.arange(len(labels)), lambda rows: np.where(silent[rows][:, None], np.float32(0), evidence(rows))),
    ):
        trainer = made(epochs=1)
        list(trainer.fit(features, rows, table))
        results.append(weights(trainer))
    assert (results[0] == results[1]).all()
    with pytest.raises(InputError, match="at least one labelled row"):
        next(made().fit(features, answered, lambda rows: np.zeros((len(rows), 10), np.float32)))


def test_fewer_features_than_a_step(digits):
    features, _, evidence = digits
    trainer = made(epochs=2)
    steps = []
    list(trainer.fit(features[:50], np.arange(20), evidence, lambda step, of: steps.append((step, of))))
    assert steps == [(1, 2), (2, 2)]
    assert trainer.flop == 2 * (32 + 2 * 50) * 3 * 2 * (64 * 10 + 64 * 64 + 64 * 10)


# ── one step, row by row ──


def naive_step(trainer, features, rows, evidence):
    """The losses of the first step and its gradient, with a loop over rows and torch's own cross-entropy of one row."""
    recipe, n = trainer.recipe, len(features)
    trainer._spread = features.std(dim=0, unbiased=False)
    generator = torch.Generator().manual_seed(recipe.seed * 1_000_003)
    order = torch.randperm(n, generator=generator).numpy()
    labelled = rows[fixmatch._cycles(len(rows), recipe.batch_size, generator).numpy()]
    x = trainer._weak(features[labelled], labelled, generator)
    weak = trainer._weak(features[order], order, generator)
    strong = trainer._strong(features[order], order, generator)
    loss = torch.zeros(())
    for row, one in zip(labelled, x, strict=True):
        label = torch.tensor(int(evidence(np.array([row])).argmax()))
        loss = loss + functional.cross_entropy(trainer.model(one[None])[0], label) / len(labelled)
    unlabelled, counted = torch.zeros(()), 0
    for one, other in zip(weak, strong, strict=True):
        with torch.no_grad():
            p = torch.softmax(trainer.model(one[None])[0], dim=0)
        if p.max() >= recipe.certain:
            counted += 1
            unlabelled = unlabelled + functional.cross_entropy(trainer.model(other[None])[0], p.argmax()) / n
    (loss + recipe.unlabelled_weight * unlabelled).backward()
    return loss.item(), unlabelled.item(), counted / n


def test_a_step_equals_a_naive_one(digits):
    """A linear model (rows do not meet in a batch norm), trained a little, so that it is sure of some rows and not of others."""
    features, _, evidence = digits
    features, rows = features[:90], np.arange(25)
    settings = {
        "batch_size": 32,
        "unlabelled": 7,
        "unlabelled_weight": 0.7,
        "certain": 0.8,
        "weight_decay": 0.0,
        "average": 0.0,
    }
    ours, naive = (made("linear", epochs=1, **settings) for _ in range(2))
    begun = torch.randn(10, 64, generator=torch.Generator().manual_seed(1)) * 0.3
    for trainer in (ours, naive):
        trainer.prepare(features)
        trainer.model.head.weight.data.copy_(begun)
    loss, unlabelled, mask = naive_step(naive, features, rows, evidence)
    assert 0.1 < mask < 0.9
    metrics = next(ours.fit(features, rows, evidence))
    assert metrics["loss"] == pytest.approx(loss, rel=1e-5)
    assert metrics["loss_unlabelled"] == pytest.approx(unlabelled, rel=1e-5)
    assert metrics["mask"] == pytest.approx(mask)
    # Nesterov's first step is (1 + momentum) times plain SGD's.
    gradient = torch.cat([p.grad.flatten() for p in naive.model.parameters()])
    torch.testing.assert_close(weights(ours), weights(naive) - 0.03 * 1.9 * gradient, atol=1e-6, rtol=1e-5)


def test_one_hot_evidence_is_cross_entropy():
    logits = torch.randn(20, 5, requires_grad=True)
    labels = torch.randint(0, 5, (20,))
    evidence = NoPrivacy(5).evidence(labels.numpy())
    ours, theirs = PosteriorLoss()(logits, evidence), functional.cross_entropy(logits, labels)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(*(torch.autograd.grad(loss, logits)[0] for loss in (ours, theirs)))


# ── which pseudo-labels count ──


def pseudo_labels(**changes):
    return PseudoLabels(dataclasses.replace(Recipe(1, 8, 0.1), unlabelled=2, **changes))


def steps(count=30, seed=0):
    """Logits of labelled and unlabelled rows, which lean to some classes."""
    generator = torch.Generator().manual_seed(seed)
    lean = torch.tensor([0.0, 0.5, 1.0, 2.0])
    return [
        (torch.randn(8, 4, generator=generator) * 2, torch.randn(16, 4, generator=generator) * 2 + lean)
        for _ in range(count)
    ]


def softmax(row):
    e = [math.exp(v) for v in row.tolist()]
    return [v / sum(e) for v in e]


def kept(step):
    return min(0.999, (1 + step) / (10 + step))


def test_a_fixed_threshold():
    labels, counts = pseudo_labels(certain=0.7)(*steps(1)[0])
    for row, label, count in zip(steps(1)[0][1], labels, counts, strict=True):
        p = softmax(row)
        assert p[label] == max(p)
        assert bool(count) == (max(p) >= 0.7)
    assert 0 < counts.sum() < 16


@pytest.mark.parametrize("towards", ["labelled", "uniform"])
def test_alignment_row_by_row(towards):
    ours = pseudo_labels(alignment=towards, certain=0.6)
    target, mean, changed = [0.25] * 4, [0.25] * 4, 0
    for step, (labelled, weak) in enumerate(steps()):
        known, ps = [softmax(row) for row in labelled], [softmax(row) for row in weak]
        k = kept(step)
        if towards == "labelled":
            target = [k * target[c] + (1 - k) * sum(p[c] for p in known) / 8 for c in range(4)]
        mean = [k * mean[c] + (1 - k) * sum(p[c] for p in ps) / 16 for c in range(4)]
        labels, counts = ours(labelled, weak)
        for p, label, count in zip(ps, labels, counts, strict=True):
            aligned = [p[c] * target[c] / mean[c] for c in range(4)]
            aligned = [v / sum(aligned) for v in aligned]
            assert aligned[label] == max(aligned)
            assert bool(count) == (max(aligned) >= 0.6)
            changed += p[label] != max(p)
    assert changed > 20


def test_adaptive_thresholds_row_by_row():
    ours = pseudo_labels(adaptive=True)
    mean, sure, differ = [0.25] * 4, 0.25, 0
    for step, (labelled, weak) in enumerate(steps()):
        ps, k = [softmax(row) for row in weak], kept(step)
        mean = [k * mean[c] + (1 - k) * sum(p[c] for p in ps) / 16 for c in range(4)]
        sure = k * sure + (1 - k) * sum(max(p) for p in ps) / 16
        labels, counts = ours(labelled, weak)
        for p, label, count in zip(ps, labels, counts, strict=True):
            assert bool(count) == (max(p) >= sure * mean[label] / max(mean))
            differ += bool(count) != (max(p) >= sure)
    assert differ > 5  # a class of its own threshold


def test_statistics_are_kept_only_where_they_are_used():
    plain = pseudo_labels()
    plain(*steps(1)[0])
    assert plain.means == {}


# ── resuming ──


def test_resumed_is_as_if_never_interrupted(digits, tmp_path):
    features, labels, evidence = digits
    rows, settings = few(labels), {"epochs": 4, "alignment": "labelled", "adaptive": True, "average": 0.9}
    whole, first = made(**settings), made(**settings)
    for trainer in (whole, first):
        trainer.prepare(features)
    expected = list(whole.fit(features, rows, evidence))
    begun = first.fit(features, rows, evidence)
    for _ in range(2):
        next(begun)
    first.save(tmp_path / "model.safetensors")
    torch.manual_seed(99)
    second = made(**settings)
    second.load(tmp_path / "model.safetensors")
    assert set(second.statistics()) == {"steps", "labelled", "unlabelled", "classes", "confidence"}
    rest = list(second.fit(features, rows, evidence))
    for ours, theirs in zip(rest, expected[2:], strict=True):
        assert ours | {"seconds": 0} == theirs | {"seconds": 0}
    np.testing.assert_array_equal(second.probabilities(features), whole.probabilities(features))
    assert second.flop == whole.flop
    # To predict, any trainer opens it.
    whole.save(tmp_path / "last.safetensors")
    plain = made(kind=Trainer, **settings)
    plain.load(tmp_path / "last.safetensors")
    np.testing.assert_array_equal(plain.probabilities(features), whole.probabilities(features))


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path):
    """With views that are the rows themselves, and a linear model: nothing else depends on who takes which row."""
    script = tmp_path / "both.py"
    script.write_text(
        "import sys, numpy as np, torch\n"
        "from tests.training.test_fixmatch import made, few\n"
        "from labeldp.training import fixmatch\n"
        "from labeldp.machine import joined\n"
        "from labeldp.mechanisms import NoPrivacy\n"
        "from sklearn.datasets import load_digits\n"
        "fixmatch._WEAK_NOISE = fixmatch._STRONG_NOISE = fixmatch._MIXED = 0.0\n"
        "data = load_digits()\n"
        "x = torch.from_numpy(data.data.astype(np.float32))\n"
        "with joined() as world:\n"
        "    kind = lambda *a: fixmatch.FixMatchTrainer(*a, world)\n"
        "    trainer = made('linear', kind, alignment='labelled', adaptive=True, batch_size=33)\n"
        "    trainer.prepare(x)\n"
        "    last = list(trainer.fit(x, few(data.target), lambda r: NoPrivacy(10).evidence(data.target[r])))[-1]\n"
        "    if world.first:\n"
        "        np.savez(sys.argv[1], p=trainer.probabilities(x), last=[last[k] for k in ('loss', 'loss_unlabelled', 'mask')])\n"
        "    del trainer\n"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}
    two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    for name, command in (("one", [sys.executable]), ("two", two)):
        done = subprocess.run([*command, str(script), str(tmp_path / f"{name}.npz")], capture_output=True, text=True,
                              env=environment, timeout=300)  # fmt: skip
        assert done.returncode == 0, done.stderr
    one, other = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    np.testing.assert_allclose(one["p"], other["p"], atol=1e-4)
    np.testing.assert_allclose(one["last"], other["last"], rtol=1e-3)


# ── recipes ──


def test_settings_are_the_papers():
    """Sohn et al. 2020, their CIFAR settings."""
    recipe = fixmatch_recipe("wide-resnet-28-4", 10)
    assert (recipe.learning_rate, recipe.momentum, recipe.weight_decay, recipe.average) == (0.03, 0.9, 5e-4, 0.999)
    assert (recipe.batch_size, recipe.unlabelled, recipe.unlabelled_weight, recipe.certain) == (64, 7, 1.0, 0.95)
    assert (recipe.shift, recipe.flip, recipe.mirror, recipe.randaugment, recipe.cutout) == (4, True, "coin", 2, 16)
    assert (recipe.norm_decay, recipe.bias_decay, recipe.schedule) == (False, False, "cosine")
    assert fixmatch_recipe("wide-resnet-28-8", 100).weight_decay == 1e-3
    assert (fixmatch_recipe("fast", 10, size=28).shift, fixmatch_recipe("fast", 10, size=28).cutout) == (4, 14)
    assert fixmatch_recipe("fast", 10, epochs=3, seed=None).epochs == 3
    assert fixmatch_recipe("mlp", 10).randaugment == 0
    quick = cpu_fixmatch_recipe("fast", 10, size=28, unlabelled=2)
    assert (quick.unlabelled, quick.adaptive, quick.strong_labelled, quick.shift) == (2, True, True, 4)


def test_the_cosine():
    recipe = dataclasses.replace(Recipe(10, 8, 0.1), schedule="cosine")
    assert recipe.rate(0, 20) == 1
    assert recipe.rate(100, 20) == pytest.approx(math.cos(7 * math.pi / 32))
    assert recipe.rate(199, 20) == pytest.approx(math.cos(7 * math.pi / 16), abs=0.01)


def test_no_decay_on_norms_and_biases():
    """With no gradient but decay, only matrices shrink."""
    trainer = made("mlp", weight_decay=0.1, momentum=0.0)
    trainer.model.norm.bias.data.fill_(1.0)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer._set_rates(0, 1)
    for p in trainer.model.parameters():
        p.grad = torch.zeros_like(p)
    trainer._update()
    for name, p in trainer.model.named_parameters():
        decayed = name in ("linear.weight", "hidden.weight", "head.weight")
        torch.testing.assert_close(p.detach(), before[name] * (1 - 0.03 * 0.1 if decayed else 1))
    for recipe in (default_recipe("linear"), default_recipe("fast")):
        assert recipe.bias_decay


def test_plain_recipes_are_what_they_were():
    """A run directory from before FixMatch holds exactly these numbers, and must go on being this run."""
    assert list(default_recipe("fast").to_json()) == [
        "epochs", "batch_size", "learning_rate", "momentum", "weight_decay", "schedule", "warmup", "norm_rate", "norm_decay", "shift",
        "flip", "mirror", "randaugment", "cutout", "average", "prior", "accumulate", "seed",
    ]  # fmt: skip
    recipe = fixmatch_recipe("fast", 10, certain=0.9)
    assert recipe.to_json() | {"certain": 0.9, "unlabelled": 7, "bias_decay": False} == recipe.to_json()
    assert Recipe(**recipe.to_json()) == recipe


@pytest.mark.parametrize(
    ("changes", "taught"),
    [
        ({"unlabelled": -1}, "for each labelled one"),
        ({"unlabelled": 7, "certain": 1.0}, "A typical value is 0.95"),
        ({"unlabelled": 7, "certain": -0.1}, "A typical value is 0.95"),
        ({"unlabelled": 7, "unlabelled_weight": -1.0}, "not negative"),
        ({"unlabelled": 7, "unlabelled_weight": math.inf}, "finite"),
        ({"unlabelled": 7, "alignment": "mine"}, "'none', 'labelled' or 'uniform'"),
        ({"alignment": "uniform"}, "belong to FixMatch"),
        ({"adaptive": True}, "belong to FixMatch"),
        ({"strong_labelled": True}, "belong to FixMatch"),
        ({"unlabelled": 7, "accumulate": 2}, "`accumulate` is 1"),
        ({"schedule": "sine"}, "'cosine'"),
    ],
)
def test_bad_settings(changes, taught):
    with pytest.raises(InputError, match=taught):
        dataclasses.replace(Recipe(6, 100, 0.1), **changes)


def test_bad_use(digits):
    features, _, evidence = digits
    with pytest.raises(InputError, match="give unlabelled"):
        made(unlabelled=0)
    with pytest.raises(InputError, match="at least one labelled row"):
        next(made().fit(features, np.arange(0), evidence))
    with pytest.raises(InputError, match="diverged"):
        list(made("linear", learning_rate=1e30).fit(features, np.arange(50), evidence))


# ── views ──


@pytest.mark.parametrize("channels", [1, 3])
def test_images_grey_and_coloured(channels):
    """The upper half is bright, or it is not; four labels."""
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    images = rng.integers(0, 60, (200, channels, 20, 20)).astype(np.uint8)
    images[labels == 1, :, :10] += 120
    torch.manual_seed(0)
    recipe = fixmatch_recipe("fast", 2, size=20, epochs=6, batch_size=8, unlabelled=3, alignment="uniform")
    trainer = FixMatchTrainer(models.build("fast", (channels, 20, 20), 2), recipe, CPU, torch.float32)
    x = torch.from_numpy(images)
    trainer.prepare(x)
    list(trainer.fit(x, np.arange(4), lambda rows: NoPrivacy(2).evidence(labels[rows])))
    assert accuracy(trainer, x, labels) > 0.95
    weak, strong = (
        view(x, np.arange(200), torch.Generator().manual_seed(0)) for view in (trainer._weak, trainer._strong)
    )
    assert weak.shape == strong.shape == x.shape
    grey = trainer._input(torch.full((1, channels, 1, 1), 127))
    blank, plain = ((view == grey).all(dim=1).flatten(1).float().mean(dim=1) for view in (strong, weak))
    assert blank.min() >= 0.09  # 6 of 20 pixels each way, at the lower right
    assert plain.max() < 0.06
    trainer.epoch = 0
    with pytest.raises(InputError, match="images of bytes"):
        next(trainer.fit(x.float(), np.arange(4), lambda rows: np.eye(2)[rows % 2]))


@pytest.mark.parametrize("name", operations.OPERATIONS)
def test_every_operation_takes_grey_images(name):
    """As it takes the same image in three equal channels."""
    grey = torch.randint(0, 256, (12, 1, 28, 28), generator=torch.Generator().manual_seed(0)).float()
    operation, _ = operations.OPERATIONS[name]
    strength = torch.linspace(0, 1, 12)
    coloured = operation(grey.expand(-1, 3, -1, -1).contiguous(), strength)
    torch.testing.assert_close(operation(grey, strength), coloured[:, :1], atol=0.01, rtol=1e-4)


def test_views_of_tables(digits):
    features, _, _ = digits
    generator = torch.Generator().manual_seed(0)
    spread = features.std(dim=0)
    moved = augment.noisy(features, 0.1 * spread, generator) - features
    torch.testing.assert_close(moved.std(dim=0), 0.1 * spread, rtol=0.15, atol=1e-6)  # 1,797 rows: 1.7% a deviation
    halves = augment.mixed(features, 0.5, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    share, others = (
        torch.rand(len(features), generator=generator) / 2,
        torch.randperm(len(features), generator=generator),
    )
    for i in range(50):
        torch.testing.assert_close(halves[i], (1 - share[i]) * features[i] + share[i] * features[others[i]])


# ── in a run directory ──


def test_a_job_trains_by_fixmatch_where_its_recipe_says_so(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    features = (rng.normal(size=(3, 5))[labels] * 3 + rng.normal(size=(300, 5))).astype(np.float32)
    mechanism = labeldp.SubsetSelection.calibrated(epsilon=4.0, num_classes=3)
    ids = [f"r{i}" for i in range(300)]
    release = mechanism.release(
        labels, data_set="rows", ids=ids, ledger=tmp_path / "l", entropy=labeldp.SeededEntropy(5)
    )
    recipe = fixmatch_recipe("mlp", 3, epochs=3, batch_size=16, unlabelled=2, adaptive=True)
    job = Job(release, features, "mlp", recipe, holdout=0.5)
    assert type(trainer_of(job)) is FixMatchTrainer
    assert type(trainer_of(dataclasses.replace(job, recipe=default_recipe("mlp")))) is Trainer
    summary = train(job, tmp_path / "run")
    assert summary["rows_trained"] == 150
    assert summary["train_flop"] == 3 * (9 * 16 + 2 * 300) * 3 * 2 * (
        5 * 3 + 5 * 64 + 64 * 3
    )  # all rows are in the unlabelled set
    assert predict(tmp_path / "run", features).shape == (300, 3)
    # Resumed by anything else, it is another run.
    with pytest.raises(InputError, match="another certain"):
        train(dataclasses.replace(job, recipe=dataclasses.replace(recipe, certain=0.9)), tmp_path / "run")
