"""Tables: made-up cells whose page is computed by hand, and a real one."""

import json

import pytest

from labeldp.files.summary import read_summary
from labeldp.reproduce.names import plan
from labeldp.reproduce.page import collect
from labeldp.reproduce.papers import FORWARD
from labeldp.reproduce.tabular import EPSILONS, MORE, TWO_CLASSES, Coverage, Mean, verdicts

CERTIFICATE = {"epsilon": 1.0, "delta": 0.0, "reason": None}


def estimate(value, low, high):
    return {"value": value, "interval_95": [low, high], "rows": 100}


def fit(model, reading, auc, loss, seconds=2.0, **estimates):
    same = {"model": model, "reading": reading, "average_precision": 0.5, "cpu_seconds": seconds}
    return same | {"roc_auc": auc, "log_loss": loss, "estimates": estimates}


def summary(cell, fits, classes=2):
    return {
        "kind": "tables", "dataset": cell.dataset, "num_classes": classes, "epsilon": cell.epsilon, "seed": cell.seed,
        "rows_trained": 700, "rows_tested": 300, "certificates": {"response": CERTIFICATE}, "fits": fits,
    }  # fmt: skip


def finished(place, cell, fits, classes=2):
    folder = place.folder(cell)
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(summary(cell, fits, classes)))


def cells(dataset, epsilon, seeds=5):
    return [
        cell for cell in plan("tabular", "cpu", seeds).cells() if (cell.dataset, cell.epsilon) == (dataset, epsilon)
    ]


def page_of(place, seeds=5):
    found = collect(plan("tabular", "cpu", seeds), place, "x")
    return found, (place.out / "tabular.md").read_text().splitlines()


def row(lines, caption, *start):
    at = next(number for number, line in enumerate(lines) if line.startswith(f"**{caption}"))
    return next(line for line in lines[at:] if line.startswith(f"| {' | '.join(start)} |"))


def test_the_queue():
    """Four tables of two classes and two of more, five ε, five seeds; all of the first seed first."""
    queue = plan("tabular", "cpu").cells()
    assert len(queue) == (len(TWO_CLASSES) + len(MORE)) * len(EPSILONS) * 5 == 150
    assert [cell.seed for cell in queue] == sorted(cell.seed for cell in queue)
    assert queue[0].shell("o") == "labeldp compare --dataset adult --epsilon 0.5 --seed 0 --threads 1 --out o"
    assert queue[4].arguments == ("compare", "--dataset", "adult", "--seed", "0", "--threads", "1")
    assert len(plan("tabular", "cpu", 2).cells()) == 60
    assert {cell.dataset for cell in plan("tabular", "smoke").cells()} == {"cancer", "digits"}
    (_, _, smallest) = plan("tabular", "smoke").cells()
    assert "--data" not in smallest.command("o", data="d")
    assert set(FORWARD) <= {(cell.dataset, cell.epsilon) for cell in queue}


def test_means_differences_and_verdicts(place):
    """AUC .920 and .924 against naive's .910 and .918: +.008 ± .002, by hand."""
    for cell, (ours, naive, loss, inverted) in zip(
        cells("adult", 1.0, 2), ((0.920, 0.910, 0.30, 0.31), (0.924, 0.918, 0.31, 0.33)), strict=True
    ):
        fits = [
            fit("lightgbm", "naive", naive, 0.5, 1.0),
            fit("lightgbm", "inverted", naive, inverted),
            fit("lightgbm", "response", ours, loss),
        ]
        finished(place, cell, fits)
    found, lines = page_of(place, 2)
    assert row(lines, "Our LightGBM (response, as evidence), against", "Adult", "1") == (
        "| Adult | 1 | 0.9220 ± 0.0020 | +0.0080 ± 0.0020 | yes | 0.912 | yes | 0.3050 ± 0.0050 | -0.0150 ± 0.0050 | 0.309 | yes |"
    )
    assert row(lines, "Adult", "1", "LightGBM") == (
        "| 1 | LightGBM | 0.9140 ± 0.0040 | 0.9140 ± 0.0040 | – | 0.9220 ± 0.0020 | 0.5000 ± 0.0000 | "
        "0.3200 ± 0.0100 | – | 0.3050 ± 0.0050 | "
        "1.0 | 2.0 | 2 |"
    )
    assert "All that is asked holds in 1 of 1 cells." in lines
    (verdict,) = found.data["beside"]["verdicts"]
    assert verdict["holds"] is True
    assert verdict["less_naive"]["mean"] == pytest.approx(0.008)
    assert any(one["reading"] == "inverted" for one in found.data["beside"]["scores"])
    assert "Adult, 2 classes, trained on 700 rows and tested on 300" in "".join(lines)


@pytest.mark.parametrize(
    ("ours", "loss", "words"),
    [
        ((0.890, 0.892), (0.24, 0.26), ["NO", "yes", "yes"]),  # naive, .9, wins by more than two errors of .001
        (
            (0.880, 0.882),
            (0.25, 0.26),
            ["NO", "NO", "within a standard error"],
        ),  # .885 is asked for, not forward's .875
        ((0.870, 0.930), (0.40, 0.41), ["yes", "yes", "NO"]),
        ((0.910, 0.912), (0.20, 0.21), ["yes", "yes", "yes"]),
    ],
)
def test_what_a_verdict_says(place, ours, loss, words):
    for number, cell in enumerate(cells("bank", 0.5, 2)):
        ours_fit = fit("lightgbm", "response", ours[number], loss[number])
        finished(place, cell, [fit("lightgbm", "naive", 0.9, 0.5), fit("lightgbm", "inverted", 0.9, 0.263), ours_fit])
    _, lines = page_of(place, 2)
    said = row(lines, "Our LightGBM (response, as evidence), against", "bank", "0.5").strip("| ").split(" | ")
    assert [said[4], said[6], said[10]] == words
    assert (said[5], said[9]) == ("0.885", "0.254")


def test_the_better_of_two_naive_ones_counts(place):
    (cell,) = cells("adult", 2.0, 1)
    plain = [fit("lightgbm", "naive", 0.8, 0.5), fit("lightgbm", "inverted", 0.8, 0.4)]
    stopped = [fit("lightgbm-stopped", "naive", 0.9, 0.5), fit("lightgbm-stopped", "inverted", 0.9, 0.31)]
    finished(place, cell, [*plain, *stopped, fit("lightgbm", "response", 0.92, 0.3)])
    _, lines = page_of(place, 1)
    said = row(lines, "Our LightGBM (response, as evidence), against", "Adult", "2")
    assert said == "| Adult | 2 | 0.9200 | +0.0200 | – | 0.920 | – | 0.3000 | -0.0100 | 0.293 | NO |"
    early = "LightGBM, plain, stopped early"
    assert row(lines, "Adult", "2", early).startswith(f"| 2 | {early} | 0.9000 | 0.9000 | – | – |")


def test_one_seed_has_no_error_and_no_verdict_that_needs_one(place):
    (cell,) = cells("adult", None, 1)
    finished(
        place,
        cell,
        [fit("lightgbm", "naive", 0.92, 0.3), fit("lightgbm", "clean", 0.93, 0.28), fit("mlp", "clean", 0.9, 0.3)],
    )
    found, lines = page_of(place, 1)
    assert row(lines, "Our LightGBM (response, as evidence), against", "Adult", "∞") == (
        "| Adult | ∞ | 0.9300 | +0.0100 | – | – | – | 0.2800 | – | – | – |"
    )
    # What is released without noise is the label: it stands where the response stands.
    assert row(lines, "Adult", "∞", "LightGBM").startswith(
        "| ∞ | LightGBM | 0.9200 | – | – | 0.9300 | 0.3000 | – | – | 0.2800 |"
    )
    assert (
        row(lines, "One model", "Adult", "∞", "mlp − LightGBM")
        == "| Adult | ∞ | mlp − LightGBM | -0.0300 | +0.0200 | 1 |"
    )
    assert found.data["rows"][4]["epsilon"] == 1.0


def test_estimates_are_counted(place):
    """Of four intervals, one does not hold the score and one says nothing."""
    (cell,) = cells("criteo", 2.0, 1)
    told = [estimate(0.8, 0.75, 0.85), estimate(0.7, 0.6, 0.78), estimate(None, 0.0, 1.0), estimate(0.79, None, None)]
    names = ("response", "laplace", "naive", "inverted")
    finished(
        place, cell, [fit("lightgbm", name, 0.79, 0.3, roc_auc=one) for name, one in zip(names, told, strict=True)]
    )
    _, lines = page_of(place, 1)
    said = row(lines, "Our LightGBM by true labels", "Criteo, click", "2")
    assert said == "| Criteo, click | 2 | 0.7900 | 0.8000 | 2 of 3; 1 cannot be told | 0.140 | 0.3000 | – | – | – |"
    assert "AUC: 2 of 3 intervals (66.7%) hold the score on true labels." in lines
    counted = Coverage.of(
        [read_summary(summary(cell, [fit("linear", "response", 0.5, 0.5, roc_auc=told[0])]))], "roc_auc"
    )
    assert (counted.intervals, counted.hold, counted.untold) == (1, 0, 0)


def test_more_classes(place):
    for cell in cells("digits", 4.0, 2):
        finished(
            place,
            cell,
            [fit("linear", "response", 0.98, 0.3), fit("linear", "subset", 0.985 + cell.seed / 100, 0.25)],
            10,
        )
    found, lines = page_of(place, 2)
    assert (
        row(lines, "k-subset − response", "digits", "4", "linear")
        == "| digits | 4 | linear | +0.0100 ± 0.0050 | -0.0500 ± 0.0000 | 2 |"
    )
    assert row(lines, "digits, 10 classes", "4", "linear").endswith("| 2.0 | 2 |")
    assert found.data["beside"]["verdicts"] == []


def test_a_figure_a_table(place):
    for epsilon in (1.0, 2.0, None):
        (cell,) = cells("bank", epsilon, 1)
        finished(place, cell, [fit("lightgbm", "clean" if epsilon is None else "response", 0.9, 0.3)])
    found, _ = page_of(place, 1)
    assert [picture.file for picture in found.report.pictures] == ["tabular-bank.svg"]
    assert "test AUC" in (place.out / "tabular-bank.svg").read_text()


def test_markdown_among_the_documents_names_its_neighbour(place, tmp_path):
    collect(plan("tabular", "cpu"), place, "x", markdown=tmp_path / "results-tables.md")
    assert "See also: [images](results.md)." in (tmp_path / "results-tables.md").read_text()
    assert "See also" not in (place.out / "tabular.md").read_text()
    collect(plan("equal-compute", "cpu"), place, "x", markdown=tmp_path / "results.md")
    assert "(results-tables.md)." in (tmp_path / "results.md").read_text()


def test_another_cell_in_the_same_place_is_refused(place):
    (one,) = cells("bank", 1.0, 1)
    (other,) = cells("bank", 2.0, 1)
    finished(place, one, [])
    place.folder(one).rename(place.folder(other))
    with pytest.raises(Exception, match="another epsilon"):
        page_of(place, 1)


def test_mean():
    assert Mean.of([]) is None
    assert Mean.of([0.5]).text("+") == "+0.5000"
    assert verdicts(plan("tabular", "cpu", 1), {}) == []


def test_a_real_cell_is_found_where_it_was_started_by_hand(tmp_path, cli):
    """One fit of the smoke scale, by the cell's own command, and its page."""
    cell = plan("tabular", "smoke").cells()[0]
    folder = tmp_path / "cells" / cell.name
    code, _, err = cli(*cell.arguments, "--model", "linear", "--out", folder)
    assert code == 0, err
    code, out, err = cli("reproduce", "tabular", "--collect", "--out", tmp_path)
    assert code == 0, err
    assert out.startswith("1 of 3 cells are finished")
    page = (tmp_path / "tabular.md").read_text().splitlines()
    assert row(page, "breast cancer, 2 classes, trained on 398 rows and tested on 171", "2", "linear").endswith("| 1 |")
