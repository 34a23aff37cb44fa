"""What a page says is what the run's files say; what it must not say it does not."""

import json
import os
import re
import shutil
import stat
from html.parser import HTMLParser

import numpy as np
import pytest

import labeldp
from labeldp.accounting.journal import Journal
from labeldp.errors import InputError
from labeldp.report.build import Report

from .conftest import labeldp_commands

pytestmark = pytest.mark.xdist_group("runs")  # which are made once for all of them


def page(*folders, **options):
    return Report.of(list(folders), **options).html()


def numbers(html):
    """The unrounded values that stand beside those that people read."""
    return {float(value) for value in re.findall(r'<data value="([^"]+)"', html)}


def text(html):
    class Words(HTMLParser):
        def __init__(self):
            super().__init__()
            self.words, self.skipped = [], False

        def handle_starttag(self, tag, attrs):
            self.skipped = tag in ("style", "script") or self.skipped

        def handle_endtag(self, tag):
            self.skipped = self.skipped and tag not in ("style", "script")

        def handle_data(self, data):
            if not self.skipped:
                self.words.append(data)

    parser = Words()
    parser.feed(html)
    return re.sub(r"\s+", " ", " ".join(parser.words))


def test_numbers_are_those_of_the_runs_json(runs):
    html = page(runs / "plain")
    summary = json.loads((runs / "plain" / "summary.json").read_text())
    confusion = json.loads((runs / "plain" / "confusion.json").read_text())
    low, high = summary["interval_95"]
    expected = {
        summary["certificate"]["epsilon"], summary["accuracy_test"], summary["accuracy_estimated"], low, high,
        summary["commonest_class_estimated"], *(one["epsilon_low"] for one in summary["audit"].values()),
        *(share for row in confusion["shares"] for share in row),
    }  # fmt: skip
    assert expected <= numbers(html)
    words = text(html)
    assert "pure: δ = 0" in words
    assert "local: the owner released each label on its own" in words
    assert "computed from the sampler’s integers" in words
    assert "not checked" not in words
    found = summary["audit"]["release"]
    assert f"{found['correct']} of {found['guesses']}; {found['abstained']} abstained" in words
    command = "labeldp train --dataset digits --model linear --epochs 3 --epsilon 4 --canaries 100 --candidates 10 --out plain"
    assert command in words
    assert labeldp.__version__ in words
    assert "torch" in words


def test_did_it_act(runs):
    html = page(runs / "plain")
    release = labeldp.Release.load(runs / "plain" / "released.parquet")
    assert 1 - release.mechanism.kept() in numbers(html)
    assert release.mechanism.information() in numbers(html)
    planted = 100 / len(release)
    for c in range(10):
        estimate = release.estimate_accuracy(slice(None), np.full(len(release), c)).without_canaries(planted, 10)
        assert {estimate.accuracy, *estimate.interval()} <= numbers(html)
    assert "planted labels ( 7.0% ) are taken out" in text(html)
    assert "planted labels, if there are any, are among them" in text(page(runs / "best"))


def test_the_ledgers_entries_are_this_data_sets_alone(tmp_path):
    rows = "".join(f"v{i},{i % 7},{'yes' if i % 3 else 'no'}\n" for i in range(60))
    (tmp_path / "visits.csv").write_text("visit,page,bought\n" + rows)
    (tmp_path / "strangers.csv").write_text("visit,page,bought\n" + rows.replace("v", "w"))
    (tmp_path / "x.csv").write_text("visit,page\n" + "".join(f"v{i},{i % 7}\n" for i in range(60)))
    release = "--label bought --classes no,yes --id visit --epsilon 1"
    commands = [
        f"release visits.csv {release} --out visits.parquet",
        f"release strangers.csv {release} --out strangers.parquet",
        "train --release visits.parquet --features x.csv --id visit --out run",
    ]
    labeldp_commands(commands, tmp_path)
    html = page(tmp_path / "run", ledger=tmp_path / "reader.ledger")
    assert "visits" in text(html)
    assert "strangers" not in html
    assert "The ledger" not in page(tmp_path / "run")
    # The release is found where the run found it; moved, it is asked for, and what the summary says is not vouched for.
    assert "Did it act?" in html
    (tmp_path / "visits.parquet").rename(tmp_path / "moved.parquet")
    alone = text(page(tmp_path / "run"))
    assert "--release FILE" in alone
    assert "stated by the run’s summary and not checked" in alone
    assert "computed from the sampler" not in alone
    assert "Did it act?" in page(tmp_path / "run", releases=[tmp_path / "moved.parquet"])
    with pytest.raises(InputError, match="recorded in the ledger"):
        page(tmp_path / "run", ledger=tmp_path / "reader.ledger")
    # Whose run this is does not decide which entries of the owner's ledger it sees.
    (tmp_path / "moved.parquet").rename(tmp_path / "visits.parquet")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps(config | {"data_set": "strangers"}))
    with pytest.raises(InputError, match="another data set"):
        page(tmp_path / "run", ledger=tmp_path / "reader.ledger")
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="none of these runs was made from"):
        page(tmp_path / "run", releases=[tmp_path / "strangers.parquet"])


def test_insecure_runs_are_shown_in_red(runs):
    for name, reason in (("seeded", "known seed"), ("none", "no privacy")):
        html = page(runs / name)
        assert re.search(rf'class="alarm"[^>]*>INSECURE: [^<]*{reason}', html)
        assert "What that means for one label" not in html
    assert "INSECURE" not in page(runs / "plain")
    assert page(runs / "plain", runs / "seeded").count("none: INSECURE") == 1


def test_a_delta_changes_the_reading(runs):
    words = text(page(runs / "gaussian"))
    assert "at δ = 1e-05" in words
    assert "For any one such guess, and but for an event of probability at most 1e-05 (δ)" in words


def test_stages(runs):
    words = text(page(runs / "staged"))
    assert "subset + prior" in text(page(runs / "staged", runs / "plain"))
    assert "Release 1: subset" in words
    assert "Release 2: prior" in words
    assert "stage 1" in words


def test_owner_only_numbers_are_for_the_owner(runs, tmp_path):
    owners = json.loads((runs / "pate" / "owner" / "summary.json").read_text())
    secret = [f"{owners['epsilon_data_dependent']:.6g}", f"{owners['ensemble_accuracy']:.2%}"]
    canaries = labeldp.audit.canaries.Canaries.load(runs / "plain" / "canaries.npz")
    positions = ", ".join(map(str, canaries.rows[:5].tolist()))
    public = page(runs / "pate", runs / "plain")
    assert not any(number in text(public) for number in secret)
    assert positions not in public
    assert (
        "owner" not in text(public).lower().split("for the owner of the labels alone")[0]
        or "For the owner of the labels alone" not in public
    )
    report = Report.of([runs / "pate", runs / "plain"], owner=True)
    private = report.html()
    assert all(number in text(private) for number in secret)
    assert positions in private
    assert "For the owner of the labels alone" in private
    report.save(tmp_path / "owner.html")
    assert stat.S_IMODE((tmp_path / "owner.html").stat().st_mode) == 0o600


def test_central_trust_is_said(runs, tmp_path):
    words = text(page(runs / "pate"))
    assert "central: whoever made the release saw features and labels together" in words
    assert "What it takes for what" in words  # judged by the rows that were held out
    summary = json.loads((runs / "pate" / "summary.json").read_text())
    # Everybody's labels are on the page: those who were held out have paid more here, and the headline says what they have.
    held_out = labeldp.Release.load(runs / "pate" / "held-out.parquet")
    (run,) = Report.of([runs / "pate"]).runs
    assert run.epsilon == max(summary["certificate"]["epsilon"], held_out.guarantee.epsilon)
    assert run.certificate["delta"] == summary["certificate"]["delta"]
    assert f"{len(held_out):,}, released by {held_out.mechanism.name}" in words
    # A summary that keeps silent of them, or a release that is missing, makes it no less.
    for change in (lambda folder, s: s.update(held_out=None), lambda folder, s: (folder / "answers.parquet").unlink()):
        copy = tmp_path / f"copy-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(runs / "pate", copy)
        altered = json.loads((copy / "summary.json").read_text())
        altered["accuracy_estimated"]["mean"] = None
        change(copy, altered)
        (copy / "summary.json").write_text(json.dumps(altered))
        assert Report.of([copy]).runs[0].epsilon == run.epsilon
    assert {summary["accuracy_test"]["mean"], summary["accuracy_estimated"]["mean"]} <= numbers(page(runs / "pate"))


def test_an_audit_joins_the_run_that_it_is_of(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = np.where(x[:, 0] > 0, "yes", "no")
    (tmp_path / "v.csv").write_text(
        "id,a,b,y\n" + "".join(f"r{i},{a:.3f},{b:.3f},{c}\n" for i, ((a, b), c) in enumerate(zip(x, y, strict=True)))
    )
    (tmp_path / "x.csv").write_text("id,a,b\n" + "".join(f"r{i},{a:.3f},{b:.3f}\n" for i, (a, b) in enumerate(x)))
    commands = [
        "canaries plant v.csv --label y --id id --classes no,yes --count 60 --out planted.parquet --secret canaries.npz",
        "release planted.parquet --label y --classes no,yes --id id --epsilon 3 --out released.parquet",
        "train --release released.parquet --features x.csv --id id --canary-share 0.15 --out run",
        "predict run --features x.csv --id id --out scores.parquet",
        "audit scores.parquet --canaries canaries.npz --release released.parquet --out audit",
    ]
    labeldp_commands(commands, tmp_path)
    report = Report.of([tmp_path / "run", tmp_path / "audit"])
    assert len(report.runs) == 1
    kept = json.loads((tmp_path / "audit" / "audit.json").read_text())
    measured = {one.who: one.low for one in report.runs[0].measured}
    assert measured == {f"who sees the {look['attack']}": look["epsilon_low"] for look in kept["audit"]["looks"]}
    html = report.html()
    assert "Right and wrong guesses of planted labels" in html
    assert "labeldp audit scores.parquet" in text(html)
    alone = Report.of([tmp_path / "audit"]).html()
    assert "The model" not in [h.strip() for h in re.findall(r"<h2>([^<]*)</h2>", alone)]
    assert 'ε ≤ <data value="' in alone


def test_an_audit_that_saw_true_labels_is_the_owners(tmp_path, runs):
    from labeldp.audit.kept import KeptAudit
    from tests.audit.test_kept import measured

    KeptAudit.of(measured(), None, None, knows_truth=True).save(tmp_path / "audit")
    public = Report.of([tmp_path / "audit"])
    assert public.runs[0].measured == ()
    assert public.runs[0].violins is None
    assert "--owner shows it" in public.html()
    assert Report.of([tmp_path / "audit"], owner=True).runs[0].measured


def test_several_runs_and_their_size(runs, tmp_path):
    folders = [runs / name for name in ("plain", "gaussian", "staged", "best", "seeded", "none", "pate")]
    report = Report.of([*folders, *folders[:3]])
    size = report.save(tmp_path / "ten.html")
    assert size < 2_000_000
    assert Report.of(folders[:1]).save(tmp_path / "one.html") < 1_000_000
    assert len({run.name for run in report.runs}) == 10
    assert "Accuracy against proven ε" in report.html()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("plain", lambda s: s["certificate"].update(epsilon=0.5), "another certificate"),
        ("gaussian", lambda s: s["certificate"].update(delta=0.0), "another certificate"),
        ("gaussian", lambda s: s["certificate"].update(delta=1e-12), "another certificate"),
        ("seeded", lambda s: s.update(insecure=None), "another certificate"),
        ("plain", lambda s: s.update(trust="central"), "another certificate"),
        ("staged", lambda s: s["certificate"].update(epsilon=3.0), "another certificate"),
        ("staged", lambda s: s.update(releases=s["releases"][::-1]), "other releases than it names"),
        ("pate", lambda s: s["certificate"].update(epsilon=0.1), "another certificate"),
        ("plain", lambda s: s.update(releases=["ab" * 32], certificate={**s["certificate"], "epsilon": -1}), "is none"),
        (
            "plain",
            lambda s: s.update(releases=["ab" * 32], certificate={**s["certificate"], "epsilon": "1"}),
            "is none",
        ),
        ("plain", lambda s: s.update(releases=["ab" * 32], certificate=[]), "is none"),
        ("seeded", lambda s: s.update(certificate=None, insecure=None), "another certificate"),
        ("plain", lambda s: s.update(trust=5), "no run's, or a damaged"),
        ("plain", lambda s: s["audit"]["model"].update(abstained=None), "no run's, or a damaged"),
        ("plain", lambda s: s.update(accuracy_test=float("nan")), "no run's, or a damaged"),
        ("plain", lambda s: s["audit"]["model"].pop("epsilon_low"), "no run's, or a damaged"),
        ("plain", lambda s: s["audit"]["model"].update(epsilon_low="much"), "no run's, or a damaged"),
        ("plain", lambda s: s.update(releases=5), "no run's, or a damaged"),
    ],
)
def test_an_altered_summary_is_found_out(runs, tmp_path, name, change, message):
    copy = tmp_path / "copy"
    shutil.copytree(runs / name, copy)
    summary = json.loads((copy / "summary.json").read_text())
    change(summary)
    (copy / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(InputError, match=message):
        page(copy)


def test_a_foreign_ledger_in_a_run_is_passed_over(runs, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(runs / "plain", copy)
    (copy / "labels.ledger").unlink()
    (copy / "labels.ledger").symlink_to(runs / "gaussian" / "labels.ledger")
    assert "The ledger" in text(page(runs / "plain"))
    assert "The ledger" not in text(page(copy))


def test_a_forged_ledger_is_passed_over(runs, tmp_path):
    """It has the release's ledger, entry and checksum, and caps of its maker's; but not the hash, which needs the owner's key."""
    copy = tmp_path / "copy"
    shutil.copytree(runs / "plain", copy)
    release = labeldp.Release.load(copy / "released.parquet")
    first, *others = labeldp.Ledger(copy / "labels.ledger").verify()
    (copy / "labels.ledger").unlink()
    forged = Journal(
        copy / "labels.ledger", lambda: ("ledger", first.body | {"key": "00" * (len(first.body["key"]) // 2)})
    )
    with forged.transaction() as transaction:
        for entry in others:
            body = dict(entry.body)
            if entry.kind == "data set":
                body["caps"] = body["caps"] | {"pure": 0.01}
            written = transaction.append(entry.kind, body)
            if entry.kind == "charged":  # its copy of the release goes by the hash
                (kept,) = (copy / "labels.ledger.releases").glob("*.parquet")
                kept.rename(kept.with_name(kept.name.replace(entry.hash[:16], written.hash[:16])))
    assert labeldp.Ledger(copy / "labels.ledger").verify()  # the forged chain is whole
    found = page(copy)
    assert "0.01" not in text(found)
    assert release.checksum[:12] in found


def test_pipes_and_odd_places_do_not_hang_or_crash(runs, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(runs / "plain", copy)
    for name in ("metrics.jsonl", "selection.json", "audit.json", "probabilities.npy"):
        (copy / name).unlink(missing_ok=True)
        os.mkfifo(copy / name)
    starts = json.loads((copy / "starts.json").read_text())
    starts["starts"][0]["releases"] = ["/etc/passwd", "/dev/zero", "x" * 5000, 5, "a\0b", str(copy / "metrics.jsonl")]
    (copy / "starts.json").write_text(json.dumps(starts))
    assert "The claim" in text(page(copy))
    (copy / "confusion.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="damaged"):
        page(copy)


def test_two_models_of_one_release_and_an_audit_of_one(tmp_path):
    rows = range(300)
    (tmp_path / "v.csv").write_text(
        "id,a,y\n" + "".join(f"r{i},{i % 5},{'yes' if i % 5 > 2 else 'no'}\n" for i in rows)
    )
    (tmp_path / "x.csv").write_text("id,a\n" + "".join(f"r{i},{i % 5}\n" for i in rows))
    commands = [
        "canaries plant v.csv --label y --id id --classes no,yes --count 60 --out planted.parquet --secret canaries.npz",
        "release planted.parquet --label y --classes no,yes --id id --epsilon 3 --out released.parquet",
        "train --release released.parquet --features x.csv --id id --epochs 2 --out one",
        "train --release released.parquet --features x.csv --id id --epochs 3 --out two",
        "predict two --features x.csv --id id --out scores.parquet",
        "predict one --features x.csv --id id --out reference.npy",
        "audit scores.parquet --canaries canaries.npz --release released.parquet --out audit",
        "audit scores.parquet --canaries canaries.npz --reference reference.npy --out calibrated",
        "predict two --features x.csv --id id --out two.npy",
        "audit two.npy --canaries canaries.npz --release released.parquet --out unnamed",
    ]
    labeldp_commands(commands, tmp_path)
    report = Report.of([tmp_path / name for name in ("one", "two", "audit")])
    assert [(run.name, bool(run.measured)) for run in report.runs] == [("one", False), ("two", True)]
    # Only that model was looked at: without it the audit stands alone.
    alone = Report.of([tmp_path / name for name in ("one", "audit")])
    assert [(run.name, bool(run.measured)) for run in alone.runs] == [("one", False), ("audit", True)]
    # An audit of probabilities that name no model is nobody's.
    unnamed = Report.of([tmp_path / name for name in ("one", "unnamed")])
    assert [(run.name, bool(run.measured)) for run in unnamed.runs] == [("one", False), ("unnamed", True)]
    # Nothing says what a reference in a plain matrix was trained on.
    assert json.loads((tmp_path / "calibrated" / "audit.json").read_text())["owner_only"]
    # Nobody's home directory goes along with a run.
    for file in ("one/starts.json", "audit/audit.json"):
        assert str(tmp_path) not in (tmp_path / file).read_text()
    assert str(tmp_path) not in report.html()


def test_texts_of_others_are_text(runs, tmp_path):
    """A run directory may come from somebody else: nothing in it becomes part of the page's code."""
    copy = tmp_path / "copy"
    shutil.copytree(runs / "best", copy)
    (copy / "released.parquet").unlink()  # the release would find the names out
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    config = json.loads((copy / "config.json").read_text())
    config |= {"data_set": evil, "label_names": [evil, *map(str, range(1, 10))]}
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "labels.ledger").unlink()
    html = page(copy)
    assert evil not in html
    assert "<img" not in html
    assert html.count("<script") == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", "{", "damaged"),
        ("summary.json", "[]", "damaged"),
        ("summary.json", "{}", "no run's, or a damaged"),
        ("summary.json", None, "not finished"),
        ("confusion.json", '{"shares": [[1]], "standard_errors": [[1]], "called": [1]}', "another number of classes"),
        ("starts.json", '{"starts": 3}', "damaged"),
        ("probabilities.npy", "none", "damaged"),
    ],
)
def test_damaged_runs(runs, tmp_path, name, content, message):
    copy = tmp_path / "copy"
    shutil.copytree(runs / "plain", copy)
    (copy / name).unlink() if content is None else (copy / name).write_text(content)
    with pytest.raises(InputError, match=message):
        page(copy)


def test_what_is_no_run(tmp_path, cli):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "reproduced" / "cells").mkdir(parents=True)
    for name, message in (
        ("nowhere", "does not exist"),
        ("file", "is a file"),
        ("empty", "is no run"),
        ("reproduced", "name some of"),
    ):
        code, _, said = cli("report", tmp_path / name, "--out", tmp_path / "r.html")
        assert code == 2
        assert message in said
    assert not (tmp_path / "r.html").exists()


def test_the_command(runs, tmp_path, cli):
    code, out, _ = cli("report", runs / "plain", runs / "gaussian", "--out", tmp_path / "r.html", "--json")
    assert code == 0
    said = json.loads(out)
    assert said["bytes"] == (tmp_path / "r.html").stat().st_size
    assert [run["name"] for run in said["runs"]] == ["plain", "gaussian"]
    summary = json.loads((runs / "plain" / "summary.json").read_text())
    assert said["runs"][0]["certificate"] == summary["certificate"]
    code, out, _ = cli("report", runs / "plain", "--out", tmp_path / "r.html")
    assert code == 0
    assert "r.html: 1 run" in out
    assert cli("report", runs / "plain", "--out", tmp_path)[0] == 2
    assert cli("report", runs / "plain", "--ledger", tmp_path / "no.ledger", "--out", tmp_path / "r.html")[0] == 2


def test_audits_of_many_trainings(runs):
    summary = json.loads((runs / "games" / "summary.json").read_text())
    html = page(runs / "games")
    assert {summary["certificate"], summary["epsilon_low"]} <= numbers(html)
    assert "labeldp audit-repeat" in text(html)
    words = text(page(runs / "heuristic"))
    assert "all canaries in one training" in words
    assert "The claim" not in words  # no release is behind it
    assert "labeldp audit-heuristic" in words


def test_a_selected_candidate(runs):
    words = text(page(runs / "chosen"))
    said = json.loads((runs / "chosen" / "selection.json").read_text())
    assert f"candidate {said['candidate']}, counted from 0, of 2" in words
    assert f"{said['score']:.2%}" in words
    assert "central: whoever made the release" in words
    # How long the choice took says how many runs there were: neither an hour nor a day is noted.
    (start,) = json.loads((runs / "chosen" / "starts.json").read_text())["starts"]
    assert start["day"] is None
