"""Bad labels, ids, files and options: one sentence that names the row and never the label; nothing charged or written."""

import datetime
import gzip
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import InputError
from labeldp.files import tables
from tests.cli.conftest import SECRET_NUMBER, SECRET_TEXT, expect_sentence
from tests.commands.releasing import release_file

OUTSIDE = "outside the 2 declared classes"

CSV_LABELS = {
    "too large": (f"{SECRET_NUMBER}", "2", OUTSIDE),
    "just too large": ("2", "2", OUTSIDE),
    "beyond 64 bits": (f"{SECRET_NUMBER}{SECRET_NUMBER}{SECRET_NUMBER}", "2", OUTSIDE),
    "negative": (f"-{SECRET_NUMBER}", "2", OUTSIDE),
    "fractional": (f"0.{SECRET_NUMBER}", "2", "label"),
    "empty": ("", "2", "has no label"),
    "quoted and empty": ('""', "2", ""),
    "blank": ("  ", "2", ""),
    "NaN": ("NaN", "2", "has no label"),
    "null": ("null", "2", "has no label"),
    "infinite": ("inf", "2", "text where class numbers 0 to 1 are declared"),
    "text": (SECRET_TEXT, "2", "text where class numbers 0 to 1 are declared"),
    "quoted text": (f'"{SECRET_TEXT}, {SECRET_NUMBER}"', "2", "text where class numbers 0 to 1 are declared"),
    "undeclared name": (SECRET_TEXT, "0,1", OUTSIDE),
    "undeclared number": (f"{SECRET_NUMBER}", "0,1", OUTSIDE),
    "missing name": ("", "0,1", "has no label"),
}


@pytest.mark.parametrize(("cell", "classes", "words"), CSV_LABELS.values(), ids=CSV_LABELS)
def test_a_bad_label_in_csv(desk, cell, classes, words):
    labels = desk.csv(f"x,label\na,0\nb,1\nc,{cell}\nd,0\n")
    desk.expect_bad(desk.release(labels, classes=classes), "row 2 ", words)


def test_a_missing_label_in_a_file_of_labels_alone(desk):
    desk.expect_bad(desk.release(desk.csv("label\n0\n1\n\n0\n")), "row 2 has no label")


PARQUET_LABELS = {
    "too large": (pa.array([0, 1, SECRET_NUMBER]), "2", OUTSIDE),
    "negative": (pa.array([0, 1, -SECRET_NUMBER]), "2", OUTSIDE),
    "small and negative": (pa.array([0, 1, -1], pa.int8()), "2", OUTSIDE),
    "largest unsigned": (pa.array([0, 1, 2**64 - 1], pa.uint64()), "2", OUTSIDE),
    "NaN": (pa.array([0.0, 1.0, float("nan")]), "2", "has no label"),
    "infinite": (pa.array([0.0, 1.0, float("inf")]), "2", OUTSIDE),
    "fractional": (pa.array([0.0, 1.0, 0.87654321]), "2", "not a whole number"),
    "null": (pa.array([0, 1, None]), "2", "has no label"),
    "null text": (pa.array(["0", "1", None]), "2", "has no label"),
    "null truth": (pa.array([False, True, None]), "2", "has no label"),
    "text": (pa.array(["0", "1", SECRET_TEXT]), "2", "text where class numbers 0 to 1 are declared"),
    "undeclared name": (pa.array(["no", "yes", SECRET_TEXT]), "no,yes", OUTSIDE),
    "name in another case": (pa.array(["no", "yes", "YES"]), "no,yes", OUTSIDE),
    "undeclared name in a dictionary": (
        pa.array(["no", "yes", SECRET_TEXT]).dictionary_encode(),
        "no,yes",
        OUTSIDE,
    ),
    "number where names are declared": (pa.array([0, 1, SECRET_NUMBER]), "0,1", OUTSIDE),
}


@pytest.mark.parametrize(("column", "classes", "words"), PARQUET_LABELS.values(), ids=PARQUET_LABELS)
def test_a_bad_label_in_parquet(desk, column, classes, words):
    outcome = desk.release(desk.parquet(label=column, x=[1, 2, 3]), classes=classes)
    desk.expect_bad(outcome, "row 2 ", words)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([datetime.date(2000, 1, 1)] * 2),
        pa.array([[0], [1]]),
        pa.array([{"label": 0}, {"label": 1}]),
        pa.array([b"0", b"1"]),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_that_cannot_hold_labels(desk, column):
    desk.expect_bad(desk.release(desk.parquet(label=column, x=[1, 2])), str(column.type).split("<")[0])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_count_through_the_whole_file(desk, monkeypatch, kind):
    monkeypatch.setattr(tables, "_MAX_BATCH_ROWS", 64)
    wide = "z" * 60_000  # CSV is read 4 MB at a time
    labels = [0] * 150 + [SECRET_NUMBER] + [0] * 49
    if kind == "csv":
        path = desk.csv("label,x\n" + "".join(f"{label},{wide}\n" for label in labels))
    else:
        path = desk.parquet(label=labels, x=list(range(200)))
    desk.expect_bad(desk.release(path), "row 150 ")


def test_rows_that_are_not_selected_are_checked_too(desk):
    labels = desk.csv(f"label,x\n0,1\n1,2\n{SECRET_NUMBER},3\n")
    desk.expect_bad(desk.release(labels, "--rows", "0:2"), "row 2 ")


def test_python_raises_the_same_sentence(desk):
    labels = desk.csv(f"label,x\n0,1\n{SECRET_NUMBER},2\n")
    with pytest.raises(InputError, match=r"^row 1 holds a label outside the 2 declared classes\.$"):
        release_file(labels, desk.out, {"label": "label", "classes": 2, "epsilon": 1.0, "ledger": desk.ledger})
    desk.expect_untouched()


IDS = {
    "duplicate in csv": ("label,id\n0,a\n1,b\n0,c\n1,b\n", ["row 3 has the same id as row 1"]),
    "missing in csv": ("label,id\n0,a\n1,\n0,c\n", ["row 1 has no id"]),
    "duplicate number": ({"label": [0, 1, 0], "id": [7, 8, 7]}, ["row 2 has the same id as row 0"]),
    "duplicate in a dictionary": (
        {"label": [0, 1, 0], "id": pa.array(["a", "b", "b"]).dictionary_encode()},
        ["row 2 has the same id as row 1"],
    ),
    "missing in parquet": ({"label": [0, 1, 0], "id": ["a", "b", None]}, ["row 2 has no id"]),
    "floats": ({"label": [0, 1], "id": [1.0, 2.0]}, ["ids must be whole numbers or text", "double"]),
    "dates": ({"label": [0, 1], "id": [datetime.date(2000, 1, 1)] * 2}, ["row 1 has the same id as row 0"]),
    "decimals": (
        {"label": [0, 1], "id": pa.array([Decimal("1.50"), Decimal("1.5")])},
        ["row 1 has the same id as row 0"],
    ),
    "times of the day": (
        {"label": [0, 1], "id": [datetime.time(1), datetime.time(2)]},
        ["ids must be whole numbers or"],
    ),
    "missing where somebody is called NA": ("label,id\n0,NA\n1,\n0,c\n", ["row 1 has no id"]),
    "NA twice": ("label,id\n0,NA\n1,b\n0,NA\n", ["row 2 has the same id as row 0"]),
}


@pytest.mark.parametrize(("content", "words"), IDS.values(), ids=IDS)
def test_bad_ids(desk, content, words):
    labels = desk.csv(content) if isinstance(content, str) else desk.parquet(**content)
    desk.expect_bad(desk.release(labels, "--id", "id"), *words)


def test_a_duplicate_id_in_another_batch(desk, monkeypatch):
    monkeypatch.setattr(tables, "_MAX_BATCH_ROWS", 64)
    labels = desk.parquet(label=[0] * 200, id=[*range(199), 5])
    desk.expect_bad(desk.release(labels, "--id", "id"), "row 199 has the same id as row 5")


def test_a_duplicate_id_among_rows_that_are_not_selected(desk):
    labels = desk.csv("label,id\n0,a\n1,b\n0,a\n")
    desk.expect_bad(desk.release(labels, "--id", "id", "--rows", "0:2"), "row 2 has the same id as row 0")


BROKEN_CSV = {
    "empty": (b"", ["is empty"]),
    "blank lines": (b"\n\n\n", ["labels.csv"]),
    "header alone": (b"label,x\n", ["no rows"]),
    "header alone, cut": (b"label,x", ["no rows"]),
    "cell too many": (f"label,x\n0,1\n1,2\n{SECRET_NUMBER},3,4\n".encode(), ["row 2 "]),
    "cell too few": (f"label,x,y\n0,1,1\n{SECRET_NUMBER},2\n1,2,2\n".encode(), ["row 1 "]),
    "cell too many after a broken line": (
        f'label,x\n0,"a\nb"\n1,2\n{SECRET_NUMBER},3,4\n'.encode(),
        ["row 2 "],
    ),
    "quote that never closes": (f'label,x\n0,1\n1,"2\n{SECRET_NUMBER},3\n'.encode(), ["labels.csv"]),
    "not UTF-8": (f"label,x\n0,1\n{SECRET_NUMBER},".encode() + b"\xff\xfe\n", ["UTF-8"]),
    "label not UTF-8": (f"label,x\n0,1\n{SECRET_TEXT}".encode() + b"\xff\xfe,1\n", ["UTF-8"]),
    "header not UTF-8": (b"label,\xff\n0,1\n", ["UTF-8"]),
    "UTF-16": ("label,x\n0,1\n".encode("utf-16"), ["UTF-8"]),
    "same name twice": (f"label,label\n0,{SECRET_NUMBER}\n".encode(), ["same name"]),
    "no header": (f"1,{SECRET_NUMBER}\n2,0\n".encode(), ["no column 'label'"]),
    "no header, text": (f"1,{SECRET_TEXT}\n2,no\n".encode(), ["no column 'label'"]),
}


@pytest.mark.parametrize(("content", "words"), BROKEN_CSV.values(), ids=BROKEN_CSV)
def test_a_broken_csv_file(desk, content, words):
    desk.expect_bad(desk.release(desk.csv(content)), *words)


def test_lines_that_end_as_on_an_old_macintosh(desk):
    labels = desk.csv(f"label,x\r0,1\r{SECRET_NUMBER},2\r")
    desk.expect_bad(desk.release(labels))


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9], ids=["of nothing", "cut early", "cut late"])
def test_a_broken_compressed_file(desk, keep):
    content = gzip.compress(b"label,x\n" + b"".join(b"%d,%d\n" % (i % 2, i * 7919) for i in range(20_000)))
    labels = desk.csv(content[: int(keep * len(content))] or gzip.compress(b""), "labels.csv.gz")
    desk.expect_bad(desk.release(labels), "labels.csv.gz")


def test_a_file_that_is_not_compressed_as_its_name_says(desk):
    desk.expect_bad(desk.release(desk.csv("label,x\n0,1\n", "labels.csv.gz")), "labels.csv.gz")


def test_a_parquet_file_without_rows(desk):
    labels = desk.parquet(label=pa.array([], pa.int64()), x=pa.array([], pa.int64()))
    desk.expect_bad(desk.release(labels), "no rows")


@pytest.mark.parametrize("keep", [4, 100, -1, -20])
def test_a_truncated_parquet_file(desk, keep):
    labels = desk.parquet(label=[0, 1] * 100, x=list(range(200)))
    labels.write_bytes(labels.read_bytes()[:keep])
    desk.expect_bad(desk.release(labels), "Parquet")


def test_a_parquet_file_with_damaged_pages(desk):
    labels = desk.files / "labels.parquet"
    pq.write_table(pa.table({"label": [0, 1] * 5000, "x": list(range(10_000))}), labels, compression="gzip")
    content = bytearray(labels.read_bytes())
    content[60 : len(content) // 2] = b"\xff" * (len(content) // 2 - 60)
    labels.write_bytes(content)
    desk.expect_bad(desk.release(labels), "damaged")


@pytest.mark.parametrize("name", ["labels", "labels.json", "labels.xlsx"])
def test_a_file_of_another_kind(desk, name):
    desk.expect_bad(desk.release(desk.csv("label,x\n0,1\n", name)), "neither Parquet nor")


@pytest.mark.parametrize(("option", "name"), [("--label", "lable"), ("--id", "key")])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_unknown_column(desk, kind, option, name):
    labels = desk.csv(f"label,x\n{SECRET_NUMBER},1\n") if kind == "csv" else desk.parquet(label=[SECRET_NUMBER], x=[1])
    desk.expect_bad(desk.release(labels, option, name), f"no column {name!r}")


OPTIONS = {
    "epsilon zero": (["--epsilon", "0"], "epsilon must be a positive number"),
    "epsilon negative": (["--epsilon", "-1"], "epsilon must be a positive number"),
    "epsilon NaN": (["--epsilon", "nan"], "epsilon must be a finite number"),
    "epsilon infinite": (["--epsilon", "inf"], "epsilon must be a finite number"),
    "epsilon above 32": (["--epsilon", "32.01"], "at most 32"),
    "delta one": (["--mechanism", "gaussian", "--delta", "1"], "delta must be between 0 and 1"),
    "delta above one": (["--mechanism", "gaussian", "--delta", "7"], "delta must be between 0 and 1"),
    "delta zero": (["--mechanism", "gaussian", "--delta", "0"], "delta must be between 0 and 1"),
    "delta negative": (["--mechanism", "gaussian", "--delta", "-1e-5"], "delta must be between 0 and 1"),
    "delta NaN": (["--mechanism", "gaussian", "--delta", "nan"], "delta must be a finite number"),
    "delta below 2^-40": (["--mechanism", "gaussian", "--delta", "9e-13"], "at least 2^-40"),
    "delta unused": (["--delta", "2"], "delta must be between 0 and 1"),
    "shuffle without ids": (["--shuffle"], "--shuffle needs --id"),
    "rows beyond the end": (["--rows", "0:4"], "among the 3 rows"),
    "rows before the start": (["--rows=-1:2"], "among the 3 rows"),
    "rows none": (["--rows", "2:2"], "among the 3 rows"),
    "rows backwards": (["--rows", "2:1"], "among the 3 rows"),
    "rows not a range": (["--rows", "2"], "--rows takes a range a:b"),
    "rows not numbers": (["--rows", "a:b"], "--rows takes a range a:b"),
    "rows open": (["--rows", "1:"], "--rows takes a range a:b"),
    "rows with a step": (["--rows", "0:3:2"], "--rows takes a range a:b"),
    "again": (["--again", "please"], "'charge'"),
    "one class": (["--classes", "1"], "from 2 to 65,536"),
    "no class": (["--classes", "0"], "from 2 to 65,536"),
    "too many classes": (["--classes", "65537"], "from 2 to 65,536"),
    "classes not a count": (["--classes", "a"], "--classes takes a count"),
    "classes fractional": (["--classes", "2.5"], "--classes takes a count"),
    "one name twice": (["--classes", "no,no"], "differ"),
    "an empty name": (["--classes", "no,"], "not be empty"),
    "no file of names": (["--classes", "@nowhere.txt"], "nowhere.txt cannot be read"),
    "unknown mechanism": (["--mechanism", "exponential"], "unknown mechanism 'exponential'"),
    "none, quietly": (["--mechanism", "none"], "--insecure-no-privacy"),
    "none, by half": (["--insecure-no-privacy"], "--mechanism none"),
    "half a Gaussian budget": (["--budget-gaussian", "1"], "--budget-delta"),
    "the other half": (["--budget-delta", "1e-5"], "--budget-gaussian"),
    "Gaussian budget, bad delta": (["--budget-gaussian", "1", "--budget-delta", "1"], "between 0 and 1"),
    "budget zero": (["--budget", "0"], "a budget must be a positive number"),
    "budget negative": (["--budget", "-1"], "a budget must be a positive number"),
    "budget NaN": (["--budget", "nan"], "a budget must be a positive number"),
    "budget infinite": (["--budget", "inf"], "a budget must be a positive number"),
    "raised by nothing": (["--raise-budget"], "--budget"),
    "negative seed": (["--insecure-seed", "-1"], "seed"),
    "the label as an id": (["--id", "label"], "at once"),
    "a name too long": (["--data-set", "x" * 201], "1 to 200 printable characters"),
    "a name of two lines": (["--data-set", "a\nb"], "1 to 200 printable characters"),
    "no prior": (["--prior", "nowhere.json"], "nowhere.json cannot be read"),
}


@pytest.mark.parametrize(("options", "words"), OPTIONS.values(), ids=OPTIONS)
def test_a_bad_option(desk, options, words):
    desk.expect_bad(desk.release(desk.csv("label,x\n0,1\n1,2\n0,3\n"), *options), words)


def test_epsilon_is_asked_for(desk):
    labels = desk.csv("label,x\n0,1\n1,2\n")
    outcome = desk.run(
        "release", labels, "--label", "label", "--classes", "2", "--out", desk.out, "--ledger", desk.ledger
    )
    desk.expect_bad(outcome, "--epsilon is missing")


@pytest.mark.parametrize("missing", ["--label", "--classes", "--out"])
def test_what_the_parser_refuses_is_exit_2_as_well(desk, missing):
    options = {"--label": "label", "--classes": "2", "--out": desk.out, "--epsilon": "1", "--ledger": desk.ledger}
    del options[missing]
    outcome = desk.run("release", desk.csv("label,x\n0,1\n"), *[word for option in options.items() for word in option])
    assert outcome.code == 2
    assert missing in outcome.err
    desk.expect_untouched()


@pytest.mark.parametrize("text", ["many", "", "1,5"])
def test_an_epsilon_that_is_no_number_is_exit_2(desk, text):
    outcome = desk.release(desk.csv("label,x\n0,1\n"), epsilon=text)
    assert outcome.code == 2
    assert "--epsilon" in outcome.err
    desk.expect_untouched()


PRIORS = {
    "too short": ("[1.0]", "needs 2 probabilities"),
    "too long": ("[0.5, 0.25, 0.25]", "needs 2 probabilities"),
    "negative": ("[1.5, -0.5]", "not negative"),
    "not adding up": ("[0.5, 0.4]", "add up to 1"),
    "NaN": ("[NaN, 1]", "finite"),
    "infinite": ("[1e999, 0]", "finite"),
    "beyond floats": (f"[1{'0' * 400}, 0]", "prior"),
    "not JSON": ("[0.5, 0.5", "is not a list of probabilities"),
    "nested": ("[[0.5], [0.5]]", "is not a list of probabilities"),
    "words": ("half half", "is not a list of probabilities"),
    "empty": ("", "prior"),
    "other names": ('{"a": 0.5, "b": 0.5}', "by name"),
    "a name missing": ('{"0": 1.0}', "by name"),
}


@pytest.mark.parametrize("mechanism", [["--mechanism", "subset"], []], ids=["subset", "recommended"])
@pytest.mark.parametrize(("text", "words"), PRIORS.values(), ids=PRIORS)
def test_a_bad_prior(desk, text, words, mechanism):
    prior = desk.files / "prior.json"
    prior.write_text(text)
    desk.expect_bad(desk.release(desk.csv("label,x\n0,1\n1,2\n"), "--prior", prior, *mechanism), words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--classes", "1", "--epsilon", "1"], "from 2 to 65,536"),
        (["--classes", "2", "--epsilon", "0"], "epsilon must be a positive number"),
        (["--classes", "2", "--epsilon", "nan"], "epsilon must be a finite number"),
        (["--classes", "2", "--epsilon", "33"], "at most 32"),
        (["--classes", "2", "--epsilon", "1", "--delta", "1"], "delta must be between 0 and 1"),
        (["--classes", "2", "--epsilon", "1", "--delta", "1e-13"], "at least 2^-40"),
    ],
)
def test_a_bad_plan(run, options, words):
    outcome = run("plan", *options)
    assert outcome.code == 2
    expect_sentence(outcome, words)
