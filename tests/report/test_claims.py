"""Run directories may be somebody else's: what they claim is compared with their releases, and nothing in them runs, hangs or crashes."""

import json
import os
import re
import shutil

import pytest

import labeldp
from labeldp.accounting.journal import Journal
from labeldp.errors import InputError
from labeldp.report.page import Report

from .conftest import labeldp_commands
from .pages import page, text

pytestmark = pytest.mark.xdist_group("runs")


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
        (
            "plain",
            lambda s: s.update(releases=["ab" * 32], certificate={**s["certificate"], "epsilon": -1}),
            "certificate cannot be",
        ),
        (
            "plain",
            lambda s: s.update(releases=["ab" * 32], certificate={**s["certificate"], "epsilon": "1"}),
            "certificate.epsilon is not a finite number",
        ),
        ("plain", lambda s: s.update(releases=["ab" * 32], certificate=[]), "certificate is not a JSON object"),
        ("seeded", lambda s: s.update(certificate=None, insecure=None), "certificate is not a JSON object"),
        ("plain", lambda s: s.update(trust=5), "trust is not text"),
        ("plain", lambda s: s["audit"]["model"].update(abstained=None), "audit.model.abstained is not a whole number"),
        ("plain", lambda s: s.update(accuracy_test=float("nan")), "damaged"),
        ("plain", lambda s: s["audit"]["model"].pop("epsilon_low"), "audit.model.epsilon_low is missing"),
        (
            "plain",
            lambda s: s["audit"]["model"].update(epsilon_low="much"),
            "audit.model.epsilon_low is not a finite number",
        ),
        ("plain", lambda s: s.update(releases=5), "releases is not a list"),
        ("plain", lambda s: s.update(kind="games"), "no run's, or damaged"),
        ("plain", lambda s: s.update(kind=["training"]), "kind is none of"),
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
    for note in (copy / "labels.ledger.releases").glob("head-*"):
        note.unlink()
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
    assert not re.search(r"(?<![\d.])0\.01(?!\d)", text(found))  # as a number of its own: 10.01% is none
    assert release.checksum[:12] in found


def test_pipes_and_odd_places_do_not_hang_or_crash(runs, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(runs / "plain", copy)
    for name in ("metrics.jsonl", "selection.json", "audit.json", "probabilities.npy"):
        (copy / name).unlink(missing_ok=True)
        os.mkfifo(copy / name)
    starts = json.loads((copy / "starts.json").read_text())
    starts["starts"][0]["releases"] = ["/etc/passwd", "/dev/zero", "x" * 5000, "a\0b", str(copy / "metrics.jsonl")]
    (copy / "starts.json").write_text(json.dumps(starts))
    assert "The claim" in text(page(copy))
    (copy / "confusion.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="damaged"):
        page(copy)


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
        ("summary.json", "{}", "no run's, or damaged: certificate is missing"),
        ("summary.json", None, "not finished"),
        ("confusion.json", '{"shares": [[1]], "standard_errors": [[1]], "called": [1]}', "another number of classes"),
        ("starts.json", '{"starts": 3}', "damaged"),
        ("starts.json", '{"starts": [{"command": null, "releases": [5]}]}', "releases.0. is not text"),
        ("probabilities.npy", "none", "not a NumPy array"),
    ],
)
def test_damaged_runs(runs, tmp_path, name, content, message):
    copy = tmp_path / "copy"
    shutil.copytree(runs / "plain", copy)
    (copy / name).unlink() if content is None else (copy / name).write_text(content)
    with pytest.raises(InputError, match=message):
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
