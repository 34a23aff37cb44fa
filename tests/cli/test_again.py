"""A second look at the same labels: the same again, anything else, budgets, disjoint rows, insecure releases."""

import pytest

from labeldp import Ledger
from tests.cli.conftest import expect_sentence


def refused(outcome, *words):
    assert outcome.code == 3
    expect_sentence(outcome, *words)


def spent(desk, data_set="labels"):
    return Ledger(desk.ledger).book().data_sets[data_set].spent().pure


# ── the same again ──


def test_the_same_again_is_the_first_release(desk):
    first = desk.released(desk.numbered())
    content = desk.out.read_bytes()
    outcome = desk.release(desk.numbered())
    assert outcome.code == 0
    assert outcome.fact("cost") == f"made on {first['made']}, nothing charged"
    assert desk.out.read_bytes() == content
    assert desk.charges() == 1


def test_the_same_again_goes_to_another_place(desk):
    first = desk.released(desk.numbered())
    other = desk.outs / "other"
    again = desk.released(desk.numbered(), out=other)
    assert (again["charged"], again["resumed"], again["checksum"]) == (False, False, first["checksum"])
    assert other.read_bytes() == desk.out.read_bytes()
    assert desk.load(other).checksum == first["checksum"]
    assert desk.charges() == 1


def test_the_same_again_after_the_file_was_deleted(desk):
    first = desk.released(desk.numbered())
    content = desk.out.read_bytes()
    desk.out.unlink()
    again = desk.released(desk.numbered())
    assert (again["charged"], again["checksum"]) == (False, first["checksum"])
    assert desk.out.read_bytes() == content


def test_the_same_again_from_a_copy_of_the_file(desk):
    first = desk.released(desk.numbered())
    again = desk.released(desk.numbered(name="copy.csv"), "--data-set", "labels", out=desk.outs / "other")
    assert (again["charged"], again["checksum"]) == (False, first["checksum"])


def test_the_same_ids_in_another_order_are_the_same_data_set(desk):
    first = desk.released(desk.csv("label,id\n0,a\n1,b\n0,c\n"), "--id", "id")
    again = desk.released(desk.csv("label,id\n0,c\n0,a\n1,b\n"), "--id", "id")
    assert (again["charged"], again["checksum"]) == (False, first["checksum"])


def test_other_labels_on_the_same_rows_change_nothing(desk):
    """Whether a release is the same again must not depend on a label."""
    first = desk.released(desk.csv("label,x\n0,1\n1,2\n"))
    again = desk.released(desk.csv("label,x\n1,1\n1,2\n"))
    assert (again["charged"], again["checksum"]) == (False, first["checksum"])


def test_charged_again_is_another_draw(desk):
    first = desk.released(desk.numbered(), "--budget", "2")
    second = desk.released(desk.numbered(), "--again", "charge", out=desk.outs / "second")
    assert second["charged"]
    assert second["checksum"] != first["checksum"]
    assert spent(desk) == pytest.approx(2, rel=1e-3)
    refused(desk.release(desk.numbered(), "--again", "charge", out=desk.outs / "third"), "Nothing was charged")
    assert desk.charges() == 2
    latest = desk.released(desk.numbered(), out=desk.outs / "fourth")
    assert (latest["charged"], latest["checksum"]) == (False, second["checksum"])


# ── anything else on the same rows ──

ELSE = {
    "another epsilon": ["--epsilon", "0.5"],
    "another mechanism": ["--mechanism", "laplace"],
    "other rows that overlap": ["--rows", "0:10"],
    "other classes": ["--classes", "3"],
    "names": ["--classes", "0,1"],
}


@pytest.mark.parametrize("options", ELSE.values(), ids=ELSE)
def test_anything_else_on_the_same_rows_wants_a_word(desk, options):
    desk.released(desk.numbered(), "--budget", "5")
    other = desk.outs / "other"
    refused(desk.release(desk.numbered(), *options, out=other), "--again charge")
    assert not other.exists()
    assert desk.charges() == 1
    assert desk.released(desk.numbered(), *options, "--again", "charge", out=other)["charged"]
    assert desk.charges() == 2


def test_shuffled_is_something_else(desk):
    desk.released(desk.numbered(), "--id", "id")
    refused(desk.release(desk.numbered(), "--id", "id", "--shuffle", out=desk.outs / "other"), "--again charge")


def test_the_same_name_for_other_rows(desk):
    desk.released(desk.numbered())
    for labels in (desk.numbered(shift=1), desk.numbered(rows=100)):
        refused(desk.release(labels, out=desk.outs / "other"), "--data-set", "'labels'")
    assert desk.charges() == 1
    assert desk.released(desk.numbered(shift=1), "--data-set", "others", out=desk.outs / "other")["charged"]


def test_what_tells_the_rows_apart_is_said(desk):
    """Both have 200 rows and other columns: a sentence that calls both the same teaches nothing."""
    desk.released(desk.numbered())
    outcome = desk.release(desk.numbered(shift=1), out=desk.outs / "other")
    known, this = outcome.err.split(", and this input does not match: it has ")
    assert known.split(" by ", 1)[1] != this.split(". ")[0]


def test_the_same_rows_under_another_name(desk):
    desk.released(desk.numbered())
    refused(desk.release(desk.numbered(name="copy.csv"), out=desk.outs / "other"), "--data-set labels", "budget")
    refused(desk.release(desk.numbered(), "--data-set", "x", out=desk.outs / "other"), "--data-set labels")
    assert desk.charges() == 1


# ── budgets ──


def test_without_a_budget_the_cap_is_the_first_releases_cost(desk):
    desk.released(desk.numbered())
    refused(
        desk.release(desk.numbered(), "--again", "charge", epsilon="0.5", out=desk.outs / "other"),
        "the budget of 'labels' is pure ε = 1",
        "Nothing was charged or released",
    )
    assert desk.charges() == 1


def test_a_budget_is_spent_to_its_end(desk):
    desk.released(desk.numbered(), "--budget", "1", epsilon="0.5")
    desk.released(desk.numbered(), "--again", "charge", epsilon="0.5", out=desk.outs / "b")
    assert spent(desk) <= 1
    refused(desk.release(desk.numbered(), "--again", "charge", epsilon="0.01", out=desk.outs / "c"), "budget")


def test_a_budget_below_the_first_release(desk):
    refused(desk.release(desk.numbered(), "--budget", "0.5"), "budget")
    desk.expect_untouched()


def test_a_budget_may_be_lowered(desk):
    desk.released(desk.numbered(), "--budget", "3")
    lowered = desk.released(desk.numbered(), "--budget", "1.5")
    assert (lowered["charged"], lowered["budget"]["caps"]["pure"], lowered["budget"]["raised"]) == (False, 1.5, [])
    refused(desk.release(desk.numbered(), "--again", "charge", out=desk.outs / "other"), "pure ε = 1.5")


def test_a_raised_budget_is_refused_and_then_recorded_for_good(desk):
    desk.released(desk.numbered(), "--budget", "1")
    second, third = desk.outs / "second", desk.outs / "third"
    again = ("--again", "charge")
    refused(desk.release(desk.numbered(), *again, "--budget", "3", out=second), "--raise-budget", "pure ε = 1")
    assert Ledger(desk.ledger).book().data_sets["labels"].caps.pure == 1
    done = desk.released(desk.numbered(), *again, "--budget", "3", "--raise-budget", out=second)
    (raised,) = done["budget"]["raised"]
    assert (raised["from"]["pure"], raised["to"]["pure"]) == (1, 3)
    later = desk.released(desk.numbered(), *again, out=third)
    assert later["budget"]["raised"] == [raised]
    for out in (second, third):
        assert desk.run("inspect", out, "--json").json["budget"]["raised"] == [raised]
        assert f"raised on {raised['at']}" in desk.run("inspect", out).fact("raised")
    assert "\nraised" not in desk.run("inspect", desk.out).out
    shown = desk.run("ledger", "show", "--ledger", desk.ledger, "--json").json
    assert shown["data_sets"][0]["raised"] == [raised]
    assert f"the budget was raised on {raised['at']}" in desk.run("ledger", "show", "--ledger", desk.ledger).out
    assert f"raised on {raised['at']}" in desk.release(desk.numbered(), out=third).fact("raised")


def test_the_word_alone_raises_nothing(desk):
    desk.released(desk.numbered(), "--budget", "3", "--raise-budget")
    same = desk.released(desk.numbered(), "--budget", "3", "--raise-budget")
    assert (same["budget"]["caps"]["pure"], same["budget"]["raised"]) == (3, [])


def test_a_refused_release_raises_nothing(desk):
    desk.released(desk.numbered(), "--budget", "1")
    refused(
        desk.release(desk.numbered(), "--budget", "9", "--raise-budget", epsilon="2", out=desk.outs / "b"), "--again"
    )
    assert Ledger(desk.ledger).book().data_sets["labels"].caps.pure == 1


def test_a_gaussian_budget_is_apart_from_the_pure_one(desk):
    gaussian = ("--mechanism", "gaussian", "--delta", "1e-5")
    done = desk.released(desk.numbered(), *gaussian, "--budget-gaussian", "1", "--budget-delta", "1e-5")
    assert done["budget"]["caps"]["pure"] == 0
    assert done["certificate"]["epsilon"] <= 1
    again = ("--again", "charge")
    refused(desk.release(desk.numbered(), *again, epsilon="0.01", out=desk.outs / "b"), "Gaussian")
    refused(desk.release(desk.numbered(), *gaussian, *again, epsilon="0.1", out=desk.outs / "b"), "Gaussian")
    assert desk.charges() == 1


# ── parts of the rows ──


@pytest.mark.parametrize("by", [[], ["--id", "id"]], ids=["by number", "by id"])
def test_disjoint_rows_share_a_budget(desk, by):
    desk.released(desk.numbered(), *by, "--rows", "0:100", "--budget", "1")
    second = desk.released(desk.numbered(), *by, "--rows", "100:200", out=desk.outs / "b")
    assert (second["charged"], second["rows"]) == (True, 100)
    assert spent(desk) <= 1


@pytest.mark.parametrize("by", [[], ["--id", "id"]], ids=["by number", "by id"])
def test_overlapping_rows_add(desk, by):
    desk.released(desk.numbered(), *by, "--rows", "0:100", "--budget", "2")
    other = desk.outs / "b"
    refused(desk.release(desk.numbered(), *by, "--rows", "99:200", out=other), "--again charge")
    desk.released(desk.numbered(), *by, "--rows", "99:200", "--again", "charge", out=other)
    assert spent(desk) == pytest.approx(2, rel=1e-3)
    refused(desk.release(desk.numbered(), *by, "--rows", "98:100", "--again", "charge", out=desk.outs / "c"), "budget")
    assert desk.charges() == 2
    desk.released(desk.numbered(), *by, "--rows", "100:110", "--again", "charge", out=desk.outs / "d")


# ── insecure ──


@pytest.mark.parametrize(
    "insecure", [["--insecure-seed", "7"], ["--mechanism", "none", "--insecure-no-privacy"]], ids=["seeded", "none"]
)
def test_an_insecure_release_of_a_data_set_with_a_budget(desk, insecure):
    desk.released(desk.numbered())
    refused(desk.release(desk.numbered(), *insecure, out=desk.outs / "b"), "has a budget")
    refused(desk.release(desk.numbered(), *insecure, "--again", "charge", out=desk.outs / "b"), "has a budget")
    assert desk.charges() == 1
    assert Ledger(desk.ledger).book().data_sets["labels"].unprotected is None


def test_an_insecure_release_with_a_budget_of_its_own(desk):
    """The remedy is to leave the budget out; where the data set has one, another ledger."""
    refused(
        desk.release(desk.numbered(), "--insecure-seed", "7", "--budget", "1"), "keeps no budget: leave out --budget."
    )
    both = ("--budget", "1", "--budget-gaussian", "1", "--budget-delta", "1e-5")
    refused(desk.release(desk.numbered(), "--insecure-seed", "7", *both), "leave out --budget and --budget-gaussian.")
    desk.expect_untouched()
    assert desk.release(desk.numbered(), "--insecure-seed", "7").code == 0
    desk.released(desk.numbered(name="more.csv", shift=900), out=desk.outs / "more")
    refused(
        desk.release(
            desk.numbered(name="more.csv", shift=900), "--insecure-seed", "7", "--budget", "1", out=desk.outs / "b"
        ),
        "another --data-set and --ledger",
    )


@pytest.mark.parametrize(
    ("insecure", "reason"),
    [(["--insecure-seed", "7"], "seed"), (["--mechanism", "none", "--insecure-no-privacy"], "no privacy")],
    ids=["seeded", "none"],
)
def test_an_insecure_release_marks_everything_for_good(desk, insecure, reason):
    outcome = desk.release(desk.numbered(), *insecure)
    assert reason in outcome.fact("INSECURE")
    assert outcome.fact("certificate").startswith("none: ")
    done = desk.released(desk.numbered(), *insecure)
    assert reason in done["insecure"]
    assert done["certificate"]["epsilon"] is None
    assert reason in done["certificate"]["reason"]
    assert reason in desk.load().insecure
    assert desk.load().guarantee is None
    assert reason in desk.run("inspect", desk.out, "--json").json["insecure"]
    assert reason in desk.run("inspect", desk.out).fact("INSECURE")

    later = desk.outs / "later"
    secure = desk.released(desk.numbered(), "--again", "charge", out=later)
    assert reason in secure["insecure"]
    assert secure["certificate"]["epsilon"] is None
    assert reason in desk.load(later).insecure
    refused(desk.release(desk.numbered(), "--again", "charge", "--budget", "9", out=desk.outs / "c"), "for good")
    shown = desk.run("ledger", "show", "--ledger", desk.ledger, "--json").json["data_sets"][0]
    assert reason in shown["unprotected"]
    assert all(reason in release["insecure"] for release in shown["releases"])
    assert "unprotected for good" in desk.run("ledger", "show", "--ledger", desk.ledger).out


def test_a_seed_repeats_itself(desk):
    """Two owners with one seed draw the same noise; that is what makes it insecure."""
    first = desk.released(desk.numbered(), "--insecure-seed", "7")
    desk.ledger = desk.folder / "another.ledger"
    second = desk.released(desk.numbered(), "--insecure-seed", "7", out=desk.outs / "b")
    assert first["charged"]
    assert second["charged"]
    a, b = desk.load(), desk.load(desk.outs / "b")
    assert (a.observations == b.observations).all()
    desk.released(desk.numbered(), "--insecure-seed", "8", "--again", "charge", out=desk.outs / "c")
    assert (a.observations != desk.load(desk.outs / "c").observations).any()
