"""May it be signed? Every state, what it rests on, and that nothing another party wrote makes it better."""

import json
import math
import shutil
from dataclasses import replace

import pytest

from labeldp.audit.counts import Bound, OneRunCounts
from labeldp.release.release import Release
from labeldp.report.checklist import checklist
from labeldp.report.page import Report
from labeldp.report.promise import cap_of
from labeldp.report.runs import Accuracy, Measured
from labeldp.report.signoff import SignOff

from .conftest import labeldp_commands
from .pages import page, text
from .test_runs import kept

pytestmark = pytest.mark.xdist_group("runs")


RAISED = {"raised": [{"at": "2026-01-02"}]}


def signoff(run):
    cap = cap_of(run)
    return SignOff.of(run, cap, checklist(run, cap))


def found(run):
    return [(one.state, one.words) for one in signoff(run).findings]


@pytest.fixture
def whole(owned):
    (run,) = Report.of([owned / "run", owned / "audit"], ledger=owned / "reader.ledger").runs
    return run


def with_header(run, **facts):
    """The run, with other words in its release's header."""
    (one,) = run.releases
    other = Release(one.header | facts, one.mechanism, one.arrow_ids, one.observations, one.checksum)
    other.paths = one.paths
    return replace(run, releases=(other,))


def with_entry(run, **facts):
    return replace(run, ledger=run.ledger | {"data_sets": [run.ledger["data_sets"][0] | facts]})


def measured(run, correct, guesses):
    bound = Bound("model", (OneRunCounts(correct, guesses, guesses, 2, False),))
    one = Measured("who sees the model", run.measured[0].result, bound)
    return replace(run, measured=(one,)).with_headline(0)


def test_fine(whole):
    said = signoff(whole)
    assert (said.state, said.findings) == ("fine", ())
    assert said.sentence.startswith(
        "Nothing in these files speaks against signing: every label of “v” is protected with ε = 1 by this release (the owner’s promise "
        "for all releases, made or still to come: ε = 2), and what was measured (at least "
    )
    assert said.sentence.endswith("does not contradict it.")
    assert "right at most 73.2% of the time with it (88.1% once all is released" in " ".join(said.promised)
    words = " ".join(said.measured)
    for part in ("is an upper limit", "is a lower limit", "That is expected, and contradicts nothing"):
        assert part in words
    html = page(*(whole.releases[0].paths[0].parent / name for name in ("run", "audit")))
    top = text(html).split("Proven ε ≤")[0]
    for question in ("What was promised?", "To whom?", "What was measured?", "Is anything wrong?", "What to do next?"):
        assert question in top
    assert "Nothing wrong was found" in top


@pytest.mark.parametrize(
    ("name", "reason"), [("seeded", "known seed"), ("none", "the observations are the true labels")]
)
def test_insecure_is_not_to_be_signed(runs, name, reason):
    (run,) = Report.of([runs / name]).runs
    said = signoff(run)
    assert said.state == "stop"
    assert reason in said.sentence
    assert said.promised == ("Nothing that could be relied on.",)
    assert said.steps[0].command.startswith("labeldp release OTHER-LABELS")


def test_what_is_not_checked_is_not_to_be_signed(owned, tmp_path, runs):
    """Whatever the summary says: an insecure run that says it is none, and has lost its release, is no better off."""
    shutil.copytree(runs / "seeded", tmp_path / "run")
    (tmp_path / "run" / "released.parquet").unlink()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    summary |= {"insecure": None, "certificate": {"epsilon": 0.5, "delta": 0.0, "reason": None}}
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    (run,) = Report.of([tmp_path / "run"]).runs
    said = signoff(run)
    assert said.state == "stop"
    assert "not checked and counts for nothing" in said.sentence
    assert "0.5" not in said.sentence
    assert said.promised == ("The files state ε = 0.5. Nothing here proves it.",)
    assert said.steps[0].command == "labeldp report run --release FILE --out sign-off.html"


@pytest.mark.parametrize("name", ["games", "heuristic"])
def test_a_measurement_alone_is_no_promise(runs, name):
    (run,) = Report.of([runs / name]).runs
    assert signoff(run).state == "stop"


def test_a_measurement_above_what_is_proven(whole):
    said = signoff(measured(whole, 60, 60))
    assert said.state == "stop"
    assert "an attack measured ε of at least" in found(measured(whole, 60, 60))[0][1]
    assert "both cannot be right" in said.measured[-1]
    assert checklist(measured(whole, 60, 60), None)[10].status == "look"
    assert said.steps[0].command.startswith("labeldp canaries plant LABELS --label y")
    assert "alert" in page_of(measured(whole, 60, 60))
    # Beside no proof it contradicts nothing.
    assert all("attack measured" not in words for _, words in found(replace(measured(whole, 60, 60), certificate=None)))


def page_of(run):
    return Report((run,)).html()


def test_no_audit_makes_it_better(whole, tmp_path):
    """An audit's counts are by its own account: without it, or with any other, the state is the same or worse."""
    states = ("stop", "look", "fine")
    without = replace(whole, measured=(), headline=None)
    for bad in (
        whole,
        with_entry(whole, raised=[{"at": "2026-01-02"}]),
        replace(whole, checked=False),
        replace(whole, insecure="a seed"),
    ):
        alone = states.index(signoff(replace(bad, measured=(), headline=None)).state)
        for correct in (0, 10, 20, 60):
            assert states.index(signoff(measured(bad, correct, 60)).state) <= alone
    assert "nothing was measured" in signoff(without).sentence
    assert signoff(without).state == "fine"
    # One that kept no counts, and states much, is to be looked at.
    place = kept(tmp_path / "old", 20)
    data = json.loads((place / "audit.json").read_text())
    for look in data["audit"]["looks"]:
        del look["counts"]
        look["epsilon_low"] = 9.0
    (place / "audit.json").write_text(json.dumps(data))
    (old,) = Report.of([place]).runs
    assert found(replace(without, measured=old.measured))[0][0] == "look"


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        (lambda run: with_entry(run, raised=[{"at": "2026-01-02"}]), "look", "the budget was raised on 2026-01-02"),
        (lambda run: with_entry(run, broken="ids in two names"), "stop", "some labels have paid more"),
        (lambda run: with_entry(run, publishable=None, unprotected="x"), "stop", "released without protection before"),
        (lambda run: with_entry(run, publishable_if_same={"epsilon": 3.0, "delta": 0.0}), "look", "are other people"),
        (lambda run: with_entry(run, of="this name"), "look", "the rows have no ids"),
        (lambda run: with_entry(run, publishable={"epsilon": 4.0, "delta": 0.0}), "look", "an ε of 4 alone promises little"),
        (lambda run: with_entry(run, publishable={"epsilon": 1.0, "delta": 0.01}), "look", "a δ of 0.01 is large for 400 rows"),
        (lambda run: replace(run, ledger=None, unrecorded=True), "look", "recorded in the ledger that was given"),
        (lambda run: replace(run, made_from=(*run.made_from, "f" * 64)), "look", "1 release behind those"),
        (lambda run: replace(run, certificate=replace(run.certificate, epsilon=None, reason="why")), "stop", "nothing is proven: why"),
        (lambda run: replace(run, certificate=None, made_from=()), "stop", "a measurement and no release"),
        (lambda run: replace(run, certificate=None), "stop", "the model saw another one"),
        (
            lambda run: with_header(replace(run, ledger=None), budget=run.releases[0].header["budget"] | RAISED),
            "look",
            "the budget was raised on 2026-01-02",
        ),
        (
            lambda run: with_header(replace(run, ledger=None), budget=run.releases[0].header["budget"] | {"publishable": None}),
            "stop",
            "released without protection before",
        ),
    ],
)  # fmt: skip
def test_what_speaks_against_it(whole, change, state, words):
    run = change(whole)
    said = signoff(run)
    assert said.state == state
    assert any(words in one for _, one in found(run)), found(run)
    assert words.lower() in said.sentence.lower()
    assert 1 <= len(said.steps) <= 4
    assert said.title in page_of(run)


def test_a_prior_takes_something_for_granted(runs):
    (run,) = Report.of([runs / "staged"]).runs
    assert any("the ε takes for granted that whoever made the public prior" in words for _, words in found(run))


def test_a_budget_that_was_raised_by_the_commands(owned, tmp_path):
    for name in ("v.csv", "planted.parquet", "reader.ledger"):
        shutil.copy(owned / name, tmp_path / name)
    for name in ("reader.ledger.releases", "run"):
        shutil.copytree(owned / name, tmp_path / name)
    shutil.copy(owned / "released.parquet", tmp_path / "released.parquet")
    more = "--epsilon 2 --budget 3 --raise-budget --again charge --out more.parquet"
    labeldp_commands([f"release planted.parquet --label y --classes no,yes --id id {more}"], tmp_path)
    (run,) = Report.of([tmp_path / "run"], ledger=tmp_path / "reader.ledger").runs
    said = signoff(run)
    assert said.state == "look"
    assert "The budget was raised on 20" in said.sentence
    assert "ε = 3" in said.sentence
    # Who has not the ledger cannot know: nothing that is here says so.
    (alone,) = Report.of([tmp_path / "run"]).runs
    assert "raised" not in signoff(alone).sentence
    assert "labeldp report run --ledger LEDGER --owner" in signoff(alone).steps[0].command


def test_to_whom(whole):
    run = with_header(whole, handed_over={"recipient": "Acme <b>", "purpose": "fraud", "approver": "M. Muster"})
    html = page_of(run)
    assert "to “Acme <b>”; for “fraud”; approved by “M. Muster”. So its owner wrote into the file" in text(html)
    assert "<b>" not in html
    assert not any("--recipient" in (step.command or "") for step in signoff(run).steps)
    assert "to not stated; for “fraud”; approved by not stated" in text(page_of(whole))
    assert "Not stated. Whoever holds the file has it." in text(page_of(with_header(whole, handed_over=None)))
    (said,) = Report((run,)).to_json()["runs"]
    assert said["handed_over"][0]["recipient"] == "Acme <b>"


def test_other_recipients_are_for_the_owner(whole):
    entry = whole.ledger["data_sets"][0]
    other = {**entry["releases"][0], "handed_over": {"recipient": "Competitor"}}
    run = with_entry(whole, releases=[*entry["releases"], other])
    assert "Competitor" not in Report((run,)).html()
    assert "Competitor" in Report((run,), owner=True).html()


def test_steps_are_concrete_and_few(owned, runs):
    (run,) = Report.of([owned / "run"]).runs
    steps = signoff(run).steps
    assert 2 <= len(steps) <= 4
    assert steps[0].command == "labeldp report run --ledger LEDGER --owner --out sign-off.html"
    assert any(
        "labeldp audit PREDICTIONS --canaries SECRET.npz --release released.parquet" in (step.command or "")
        for step in steps
    )
    assert steps[-1].words == "Ask the team what no file can show: lines 9, 12, 13, 14 and 15 of the checklist."
    (few,) = Report.of([runs / "few"]).runs
    assert any(
        "labeldp score PREDICTIONS --labels LABELS --label y --classes no,yes --id id --epsilon 0.1"
        in (s.command or "")
        for s in signoff(few).steps
    )


def test_clipped_or_wide_estimates_are_no_headline(runs):
    def told(unbiased, low, high, how="estimated"):
        return Accuracy(unbiased, low, high, how, "", rows=50).told

    assert told(0.8, 0.7, 0.9)
    assert not told(0.8, 0.64, 0.9)
    assert not told(0.8, 0.7, 0.96)
    assert not told(1.2, 0.95, 1.0)
    assert not told(-0.1, 0.0, 0.05)
    assert told(1.0, 0.97, 1.0, "test")
    assert not told(1.0, 0.4, 1.0, "test")
    (few,) = Report.of([runs / "few"]).runs
    wide = replace(few, accuracies=(Accuracy(1.3, 0.9, 1.0, "estimated", "by few", rows=160),))
    html = page_of(wide)
    cards = html.split('class="cards"')[1].split("checklist")[0]
    assert cards.count("too few rows to tell (160 rows)") == 2
    assert "labeldp score" in cards
    assert "at least 90" not in cards
    assert "at least 90.00%" in text(html)  # in the details, with its interval
    assert "too few rows to tell" in text(Report.of([runs / "few", runs / "two"]).html()).split("Side by side")[1]


def test_several_runs_have_a_verdict_each(runs):
    words = text(page(*(runs / name for name in ("two", "none", "seeded"))))
    assert "Nothing wrong was found : two." in words
    assert "Do not sign : none, seeded." in words


def test_the_json_says_it(whole):
    (said,) = Report((whole,)).to_json()["runs"]
    assert said["sign_off"]["state"] == "fine"
    assert [line["line"] for line in said["checklist"]] == list(range(1, 17))
    assert math.isfinite(len(json.dumps(said, allow_nan=False)))
