"""A recipe that is searched for within a budget of FLOP, by released labels that were held out."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp.commands import ExperimentOptions, TrainOptions, experiment, train
from labeldp.commands.train import check_processes, plan_of
from labeldp.data.bundled import Bundled
from labeldp.errors import InputError
from labeldp.files.run import RunFolder
from labeldp.machine import World
from labeldp.private import PrivateLabels
from labeldp.runs import search as searching
from labeldp.runs.job import Job
from labeldp.runs.search import SHARE, WIDTHS, SearchPlan, candidates_of, search, train_within
from labeldp.training.recipe import default_recipe
from labeldp.training.trainer import Trainer
from tests.commands.releasing import release_file

ROWS = 300
COST = {"fast": 10, "fast-medium": 17, "fast-wide": 45}


STARTED = ("fast, from an encoder, plain", "fast, from an encoder, strong views and consistency")


def flop(job):
    """An epoch's, made up."""
    return COST.get(job.model, 10) + (3 if job.recipe.consistency else 0)


def spent(job):
    """By a trial."""
    return job.recipe.epochs * flop(job)


def images():
    rng = np.random.default_rng(0)
    down, right = np.mgrid[:17, :17]
    labels = rng.integers(0, 2, ROWS)
    waves = np.stack([np.sin(down), np.sin(right)])[labels][:, None] * 60
    return labels, (128 + waves + rng.normal(0, 40, (ROWS, 3, 17, 17))).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Images of two kinds of stripes, and their released labels."""
    folder = tmp_path_factory.mktemp("search")
    labels, pixels = images()
    np.save(folder / "x.npy", pixels)
    pq.write_table(pa.table({"y": labels}), folder / "y.parquet")
    options = {"label": "y", "classes": 2, "epsilon": 3.0, "data_set": "stripes", "ledger": folder / "l.ledger"}
    release_file(folder / "y.parquet", folder / "r.parquet", options)
    return folder


@pytest.fixture
def job(place):
    release = labeldp.Release.load(place / "r.parquet")
    return Job(release, np.load(place / "x.npy"), "fast", default_recipe("fast", 2), 0.2)


def options(place, out, **changes):
    usual = TrainOptions(
        release=(place / "r.parquet",), features=place / "x.npy", out=out, batch_size=64, holdout=0.2, flop=6e11
    )
    return replace(usual, **changes)


def likelihoods(mean, rows=30):
    return mean + np.random.default_rng(0).normal(0, 0.1, rows)


# ── which ──


def test_what_is_chosen_is_what_makes_released_labels_likeliest(job, tmp_path):
    """Every candidate wins if its likelihood is the largest, whatever it costs."""
    names = [one.name for one in candidates_of()]
    assert len(names) == 12
    for best in names:
        plan = SearchPlan.of(job, 1e5, flop=flop)
        assert {one.name for one in plan.entrants} == set(names)
        by_job = {(one.job.model, one.job.recipe): one.name for one in plan.entrants}

        def attempt(tried, where, best=best, by_job=by_job):
            epochs = default_recipe("fast", 2).epochs
            name = by_job[tried.model, replace(tried.recipe, epochs=epochs)]
            return likelihoods(1.0 if name == best else 0.5), spent(tried)

        found = search(plan, RunFolder(tmp_path), attempt)
        assert found.winner == best
        assert [sum(one.rung == rung for one in found.trials) for rung in (1, 2, 3, 4)] == [12, 6, 3, 0]
        assert [sum(one.kept for one in found.trials if one.rung == rung) for rung in (1, 2, 3)] == [6, 3, 1]
        assert all(one.behind == (0.0 if one.name == best else pytest.approx(0.5)) for one in found.trials)
        assert max(one.behind_error for one in found.trials) < 1e-12  # paired: the same rows, the same noise
        own = [one.epochs for one in found.trials if one.name == best]
        assert own[1] // 2 == own[0]
        assert not found.shortened


def test_a_budget_is_never_exceeded_and_mostly_used(job, tmp_path):
    rng = np.random.default_rng(1)
    for budget in [10, 13, 99, *(float(round(10**x)) for x in rng.uniform(1, 6, 200))]:
        plan = SearchPlan.of(job, budget, flop=flop)
        found = search(plan, RunFolder(tmp_path), lambda tried, where: (likelihoods(rng.normal()), spent(tried)))
        own = found.epochs * plan.entrant(found.winner).epoch_flop
        assert found.flop <= SHARE * budget
        assert found.flop + own <= budget
        assert found.shortened or found.flop + own > budget - plan.entrant(found.winner).epoch_flop
        assert all(one.epochs >= 1 for one in found.trials)
        assert len({one.name for one in found.trials} | {found.winner}) + len(found.left_out) == 14


def test_what_has_no_epoch_is_left_out_the_dearest_first(job):
    wide = [one.name for one in candidates_of() if one.model == "fast-wide"]
    plan = SearchPlan.of(job, 5000, flop=flop)
    assert plan.left_out == (*wide[-1:], *STARTED)
    assert SearchPlan.of(job, 1e5, flop=flop).left_out == STARTED  # for which an encoder must learn first
    few = SearchPlan.of(job, 80, flop=flop)
    assert [one.name for one in few.entrants] == ["fast, plain", "fast, strong views"]
    (one,) = SearchPlan.of(job, 20, flop=flop).entrants
    assert one.name == "fast, plain"
    with pytest.raises(InputError, match=r"less than one epoch of fast on these rows, which takes 10"):
        SearchPlan.of(job, 9, flop=flop)


def test_a_length_that_learns_the_noise_is_not_gone_on_with(job, tmp_path):
    plan = SearchPlan.of(job, 1e5, frozenset({"model"}), flop=flop)

    def attempt(tried, where):
        return likelihoods(tried.recipe.mixup - tried.recipe.epochs / 1e4), spent(tried)

    found = search(plan, RunFolder(tmp_path), attempt)
    assert found.winner == "fast, mixup"
    assert found.shortened
    assert found.epochs == next(one.epochs for one in found.trials if one.name == found.winner)


@pytest.mark.parametrize(
    ("given", "count", "kept"),
    [
        ({"model": "fast-medium"}, 4, lambda one: one.model == "fast-medium"),
        ({"model": "resnet18"}, 4, lambda one: one.model == "resnet18"),
        ({"mixup": 0.3}, 9, lambda one: one.recipe.mixup == 0.3),
        ({"average": 0.9, "cutout": 4}, 12, lambda one: (one.recipe.average, one.recipe.cutout) == (0.9, 4)),
        ({"fixmatch": True}, 3, lambda one: one.recipe.unlabelled == 7),
        ({"paper": True}, 3, lambda one: one.recipe.schedule == "steps"),
        ({"average": 0.0}, 9, lambda one: one.recipe.average == 0),  # without an average no consistency
    ],
)
def test_what_is_given_is_meant(place, job, given, count, kept, tmp_path, monkeypatch):
    from labeldp.commands.train import job_of

    told = options(place, tmp_path, **given, flop=1e9, batch_size=None)
    monkeypatch.setattr("labeldp.runs.networks.flop_an_epoch", flop)
    plan = plan_of(told, job_of(told, job.release, job.features))
    assert len(plan.entrants) == count
    assert all(kept(one.job) for one in plan.entrants)


def test_an_encoder_has_a_tenth_of_the_budget_and_is_counted(job, tmp_path):
    for budget in (1e5, 31_000.0, 3e6):
        plan = SearchPlan.of(job, budget, flop=flop, encoder_flop=lambda job: 1000)
        assert plan.encoder.epochs == int(budget / 1e4)
        assert plan.rest == budget - plan.encoder.flop
        found = search(
            plan,
            RunFolder(tmp_path),
            lambda tried, where: (likelihoods(0.0), spent(tried)),
            encoder_flop=plan.encoder.flop,
        )
        assert found.flop - plan.encoder.flop <= SHARE * plan.rest
        assert found.flop + found.epochs * 10 <= budget
        assert {one.name for one in plan.entrants if one.started} == set(STARTED)
    few = SearchPlan.of(job, 29_000.0, flop=flop, encoder_flop=lambda job: 1000)
    assert (few.encoder, few.left_out, few.rest) == (None, STARTED, 29_000)  # two epochs are no encoder
    # Nobody would start with it: it is not learned.
    dear = SearchPlan.of(job, 100, flop=flop, encoder_flop=lambda job: 1)
    assert (dear.encoder, dear.rest) == (None, 100)
    assert set(STARTED) <= set(dear.left_out)
    for given, features in (({"start"}, job.features), (set(), job.features.astype(np.float32))):
        plan = SearchPlan.of(
            replace(job, features=features), 1e6, frozenset(given), flop=flop, encoder_flop=lambda job: 1
        )
        assert plan.encoder is None
        assert not set(STARTED) & set(plan.left_out)


def test_images_that_are_no_bytes_are_not_distorted(job):
    plan = SearchPlan.of(replace(job, features=job.features.astype(np.float32)), 1e6, flop=flop)
    assert {one.job.recipe.randaugment for one in plan.entrants} == {0}
    assert len(plan.entrants) == 6


def test_wider_models_have_the_same_usual_recipe():
    assert {default_recipe(model, 100) for model in WIDTHS} == {default_recipe("fast", 100)}


# ── rows ──


def test_rows_that_choose_are_the_same_for_all_and_neither_train_nor_report(job):
    plan = SearchPlan.of(job, 1e5, flop=flop)
    final = plan.entrants[0].own(5, chosen=True).split()
    assert (len(final.train), len(final.select), len(final.report)) == (240, 30, 30)
    rows = np.concatenate((final.train, final.select, final.report))
    assert len(set(rows.tolist())) == ROWS
    for one in plan.entrants:
        split = one.trial(3).split()
        assert (split.select == final.select).all()
        assert (split.train == final.train).all()
        assert len(split.report) == 0
    # An epoch may be chosen by the same rows, if that is asked for.
    best = SearchPlan.of(replace(job, select="best"), 1e5, flop=flop).entrants[0]
    assert (best.own(5, chosen=True).select, best.trial(5).select) == ("best", "search")
    assert (best.own(5, chosen=True).split().select == final.select).all()


# ── in a run directory ──


def test_a_search_from_the_command_line(place, tmp_path, cli):
    out = tmp_path / "run"
    words = ["train", "--release", place / "r.parquet", "--features", place / "x.npy", "--out", out, "--flop", "4e11"]
    words += ["--batch-size", "64", "--holdout", "0.2"]
    code, shown, err = cli(*words)
    assert code == 0, err
    assert "log-likelihood of 30 held-out released labels, which report nothing" in shown
    assert "behind the best" in shown
    code, shown, err = cli(*words, "--json")
    summary = json.loads(shown)
    found = summary["search"]
    assert summary["rows_judged"] == 30
    assert 1 <= summary["epoch_selected"] <= summary["epochs"]  # the rows that chose the recipe choose its epoch, too
    assert (summary["epochs"], summary["model"]) == (found["epochs"], "fast")
    assert summary["search_flop"] == sum(one["flop"] for one in found["trials"]) > 0
    assert summary["search_flop"] + summary["train_flop"] <= 4e11
    # What was planned is what was spent, trial by trial.
    tried = [RunFolder(path.parent).read_training() for path in sorted(out.glob("search/*/*/summary.json"))]
    assert sorted(one.train_flop for one in tried) == sorted(one["flop"] for one in found["trials"])
    assert {(one.rows_judged, one.accuracy_estimated) for one in tried} == {(0, None)}
    # Whoever evaluates by rows that chose is refused, as by rows that were trained on.
    ids, _ = RunFolder(out).read_trained()
    assert len(ids) == 270
    code, _, err = cli("evaluate", out, "--release", place / "r.parquet", "--features", place / "x.npy")
    assert code == 2
    assert "270 of these rows were trained on" in err
    code, _, err = cli("predict", out, "--features", place / "x.npy", "--out", tmp_path / "p.npy")
    assert code == 0, err
    code, _, err = cli("report", out, "--release", place / "r.parquet", "--out", tmp_path / "page.html")
    assert code == 0, err
    page = (tmp_path / "page.html").read_text()
    assert "Its recipe was searched for" in page
    assert "Log-likelihood of each recipe that was tried" in page
    # A later stage is told that half of the rows held out chose something.
    assert RunFolder(out).promise()["select"] == "best"


def test_asked_again_nothing_is_repeated(place, tmp_path, monkeypatch):
    trained, plain = [], Trainer.fit

    def watched(self, *given):
        left = self.recipe.epochs - self.epoch
        trained.append((left, self.recipe.epochs))
        if len(trained) == 3:
            raise KeyboardInterrupt
        return plain(self, *given)

    monkeypatch.setattr(Trainer, "fit", watched)
    with pytest.raises(KeyboardInterrupt):
        train(options(place, tmp_path / "run"))
    assert not RunFolder(tmp_path / "run").searched.exists()
    before = len(trained)
    summary = train(options(place, tmp_path / "run"))
    trials = summary["search"]["trials"]
    # Finished trials train nothing: two were; the others, and the winner, are trained once each.
    worked = [left for left, _ in trained[before:] if left]
    assert len(worked) == len(trials) - 2 + 1
    assert sum(worked) == sum(one["epochs"] for one in trials[2:]) + summary["epochs"]
    del trained[:]
    again = train(options(place, tmp_path / "run"))
    assert "given" in again
    assert trained == []
    assert again["search"] == summary["search"]
    # Killed between two writings, a run is completed.
    run = RunFolder(tmp_path / "run")
    run.write_summary("training", {name: value for name, value in run.summed_up().items() if "search" not in name})
    assert train(options(place, tmp_path / "run"))["search"] == summary["search"]
    assert run.read_training().search.winner == summary["search"]["winner"]
    with pytest.raises(InputError, match="another budget"):
        train(options(place, tmp_path / "run", flop=8e11))
    with pytest.raises(InputError, match="another run"):
        train(options(place, tmp_path / "run", seed=1))
    with pytest.raises(InputError, match="another run"):
        train(options(place, tmp_path / "run", no_search=True))


def test_a_winner_that_starts_with_an_encoder(place, tmp_path, monkeypatch):
    """Whoever is tried last is said to be the likeliest: the dearest, which starts with it."""
    marks = iter(range(1000))
    monkeypatch.setattr(searching, "log_likelihoods", lambda evidence, found: likelihoods(next(marks), len(evidence)))
    monkeypatch.setattr(searching, "_ENCODER_EPOCHS", 1)
    asked = options(place, tmp_path / "run", model="fast", flop=1.2e12)
    with monkeypatch.context() as killed:
        killed.setattr(searching, "write_json", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(asked)
    encoder = RunFolder(tmp_path / "run").search_encoder.contrast
    learned = encoder.stat().st_mtime_ns
    summary = train(asked)
    assert summary["search"]["winner"] == STARTED[1]
    assert summary["start_flop"] == summary["search"]["encoder_flop"] > 0
    assert summary["search_flop"] == summary["start_flop"] + sum(one["flop"] for one in summary["search"]["trials"])
    assert summary["search_flop"] + summary["train_flop"] <= 1.2e12
    assert "given" in train(asked)
    assert encoder.stat().st_mtime_ns == learned


def test_a_training_that_is_worse_than_its_trials_is_told_of(place, tmp_path, monkeypatch, cli):
    """Whoever is asked later makes the rows less likely: the winner's own training, most of all."""
    marks = iter(range(1000, 0, -1))
    monkeypatch.setattr(searching, "log_likelihoods", lambda evidence, found: likelihoods(next(marks), len(evidence)))
    monkeypatch.setattr(searching, "_likelihoods", _told_twice(searching._likelihoods))
    found = train(options(place, tmp_path / "run", flop=3e11))["search"]
    assert found["better"] == f"{found['winner']}, {found['trials'][0]['epochs']} epochs"
    assert found["log_likelihood"] < min(one["log_likelihood"] for one in found["trials"])
    assert cli("report", tmp_path / "run", "--out", tmp_path / "page.html")[0] == 0
    assert "A trial was clearly better" in (tmp_path / "page.html").read_text()


def _told_twice(asked):
    """The same, of the same training, when it is asked again."""
    known = {}

    def likelihoods_of(job, place):
        if place not in known:
            known[place] = asked(job, place)
        return known[place]

    return likelihoods_of


def test_one_recipe_has_as_many_whole_epochs_as_the_budget_allows(place, tmp_path):
    summary = train(options(place, tmp_path / "run", flop=1e11, no_search=True))
    epoch = summary["train_flop"] / summary["epochs"]
    assert summary["train_flop"] <= 1e11 < summary["train_flop"] + epoch
    assert summary["rows_judged"] == 60
    assert "search" not in summary
    with pytest.raises(InputError, match="was not searched for"):
        train(options(place, tmp_path / "run"))
    # So little that nothing can be compared: the one recipe, judged by all rows held out.
    alone = train(options(place, tmp_path / "alone", flop=2.5e10))
    assert (alone["search"]["trials"], alone["search_flop"], alone["rows_judged"]) == ([], 0, 60)
    assert len(alone["search"]["left_out"]) == 13


# ── what cannot be ──


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epochs": 3}, "and so does `epochs`"),
        ({"folds": 3, "holdout": None}, "`folds` trains several"),
        ({"flop": None, "no_search": True}, "`no_search` goes with `flop`"),
        ({"flop": 0.0}, "positive number of operations"),
        ({"flop": float("inf")}, "positive number of operations"),
        ({"holdout": 0.0}, "no row is held out: `no_search`"),
        ({"holdout": 0.01}, "at least four rows held out; raise `holdout`"),
        ({"flop": 1e5}, "less than one epoch of fast"),
        ({"model": "linear", "batch_size": None}, "trained by gradient steps, and linear has none"),
    ],
)
def test_what_cannot_be_is_said(place, tmp_path, changes, said):
    with pytest.raises(InputError, match=said):
        train(options(place, tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


def test_tables_have_no_budget(place, tmp_path):
    np.save(tmp_path / "t.npy", np.zeros((ROWS, 4), np.float32))
    with pytest.raises(InputError, match="these features are a table: leave it out"):
        train(options(place, tmp_path / "run", features=tmp_path / "t.npy", batch_size=None))


def test_a_search_has_one_process(place, tmp_path):
    from labeldp.commands.train import check_processes

    check_processes(options(place, tmp_path, no_search=True), World(0, 2))
    with pytest.raises(InputError, match="search without torchrun; then train the winner"):
        check_processes(options(place, tmp_path), World(1, 2))


def test_an_experiment_searches_too_and_pays_for_nothing_that_cannot_be(tmp_path, monkeypatch):
    labels, pixels = images()
    bundle = Bundled("fashion", pixels, PrivateLabels(labels, 2), pixels[:50], labels[:50], ("a", "b"))
    monkeypatch.setattr("labeldp.experiments.experiment.load", lambda *given: bundle)
    asked = ExperimentOptions(
        dataset="fashion", epsilon=3.0, out=tmp_path / "run", flop=3e11, batch_size=64, canaries=4
    )
    with pytest.warns(UserWarning, match="canaries"):
        summary = experiment(asked)
    assert summary["search"]["trials"]
    assert summary["rows_tested"] == 50
    assert set(summary["audit"]) == {"model", "release"}
    for changes, said in (({"flop": 1e3}, "less than one epoch"), ({"stages": 2}, "`stages` trains several")):
        with pytest.raises(InputError, match=said):
            experiment(replace(asked, out=tmp_path / "other", canaries=None, **changes))
        assert not RunFolder(tmp_path / "other").ledger.exists()


def test_what_somebody_else_says_of_a_search_is_read_with_suspicion(place, tmp_path, job, cli):
    out = tmp_path / "run"
    train(options(place, out, flop=3e11))
    run = RunFolder(out)
    summary = json.loads(run.summary.read_text())
    trials = summary["search"]["trials"]
    forged = [{**one, "name": "<script>alert(1)</script>"} for one in trials]
    told = {"trials": forged, "winner": forged[0]["name"], "left_out": ["<b>bold</b>"]}
    run.summary.write_text(json.dumps({**summary, "search": {**summary["search"], **told}}))
    assert cli("report", out, "--out", tmp_path / "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    for wrong in ({"log_likelihood": 1e300}, {"flop": 1e-320}, {"rung": 0}, {"kept": 1}):
        said = {"trials": [{**trials[0], **wrong}], "winner": trials[0]["name"]}
        run.summary.write_text(json.dumps({**summary, "search": {**summary["search"], **said}}))
        code, _, err = cli("report", out, "--out", tmp_path / "page.html")
        assert (code, len(err.splitlines())) == (2, 1)
    run.summary.write_text(json.dumps({**summary, "search": None}))  # as one that never searched
    assert cli("report", out, "--out", tmp_path / "page.html")[0] == 0
    run.summary.write_text(json.dumps(summary))
    file = RunFolder(out).searched
    said = json.loads(file.read_text())
    for changes in (
        {"winner": "another"},
        {"epochs": 0},
        {"budget": None},
        {"trials": [{**said["trials"][0], "standard_error": -1.0}]},
        {"trials": [{**said["trials"][0], "flop": 0}]},
        {"trials": said["trials"] * 1000},
    ):
        file.write_text(json.dumps({**said, **changes}))
        with pytest.raises(InputError, match=r"search\.json"):
            train_within(SearchPlan.of(job, 3e11), out)


def test_the_winner_trained_elsewhere_is_not_judged_by_the_rows_that_chose_it(job, place, tmp_path):
    """What people are told to do with a winner keeps the rows that chose it from reporting."""
    chose = replace(job, select="search").split().select
    assert np.isin(chose, job.split().report).all()  # told nothing, they would report
    with pytest.raises(InputError, match="`no_search`, and `select='best'`"):
        check_processes(options(place, tmp_path / "run"), World(0, 2))
    told = options(place, tmp_path / "run", no_search=True, select="best")
    check_processes(told, World(0, 2))
    (one,) = plan_of(told, replace(job, select="best")).entrants
    split = one.own(1, chosen=False).split()
    assert (split.select == chose).all()
    assert not np.isin(chose, split.report).any()
