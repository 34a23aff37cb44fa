"""`labeldp features`: from somebody's CSV to a model, and what it says on the way."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.data.encode import NUMBERS, ORDER
from labeldp.data.features import read_features
from tests.cli.conftest import SECRET_TEXT, expect_sentence

PAGES = ("home", "shop", "help")


def visits(desk, rows, name="visits.csv", header="visit,page,age,day,country,bought"):
    lines = [
        f"v{i},{PAGES[i % 3]},{'' if i % 10 == 0 else 20 + i % 50},2024-01-{1 + i % 28:02d},DE,{'yes' if i % 3 == 1 else 'no'}"
        for i in rows
    ]
    return desk.csv("\n".join([header, *lines]) + "\n", name)


def test_what_became_of_each_column_is_said(desk):
    path = visits(desk, range(100))
    done = desk.run("features", path, "--label", "bought", "--id", "visit", "--out", desk.outs / "x.parquet")
    assert done.code == 0
    assert done.err.startswith("warning: what is missing becomes a feature, of 'age'")
    assert done.err.count("\n") == 1
    became = {column: done.fact(column).strip() for column in ("visit", "bought", "page", "age", "day", "country")}
    assert became == {
        "visit": "names the rows: kept as it is",
        "bought": "the label: not read",
        "page": "text: 3 columns of 0 and 1, page=help, page=home, page=shop",
        "age": "number; missing: the median 45, and 1 in 'age is missing'",
        "day": "date: days since 1970",
        "country": "left out: all rows hold the same",
    }
    assert done.out.splitlines()[-1] == f"{desk.outs / 'x.parquet'}: 100 rows, 6 columns of features"
    read = read_features(desk.outs / "x.parquet", "visit")
    assert read.columns == ("page=help", "page=home", "page=shop", "age", "age is missing", "day")
    assert "bought" not in pq.read_schema(desk.outs / "x.parquet").names


def test_json_says_the_same(desk):
    path = visits(desk, range(100), header="visit,page,age,bought_on,country,bought")
    done = desk.run("features", path, "--label", "bought", "--out", desk.outs / "x.parquet", "--json")
    assert done.code == 0
    assert done.json["rows"] == 100
    assert done.json["out"] == str(desk.outs / "x.parquet")
    assert done.json["columns"] == list(read_features(desk.outs / "x.parquet").columns)
    assert done.json["became"]["visit"].endswith("If it names the rows, say --id visit.")
    assert done.json["encoding"]["labels"] == ["bought"]
    assert done.json["warnings"] == [
        "column 'bought_on' has the label's name in its own: does it give the label away?",
        "what is missing becomes a feature, of 'age': a column that is filled in only after the outcome gives the label away. Name such a "
        "one among --label too, and it is not read.",
        ORDER.replace("`id_column`", "--id"),
    ]
    assert f"warning: {done.json['warnings'][0]}" in done.err


@pytest.mark.parametrize("later_has_the_label", [True, False])
def test_from_a_csv_to_a_model(desk, later_has_the_label):
    """train, predict and evaluate take what comes out; columns are found by name."""
    first, x, run = visits(desk, range(300)), desk.outs / "x.parquet", desk.outs / "run"
    second = visits(desk, range(300, 600), "later.csv")
    desk.released(first, "--id", "visit", label="bought", classes="no,yes", epsilon="8", out=desk.outs / "r.parquet")
    desk.released(second, "--id", "visit", label="bought", classes="no,yes", epsilon="8", out=desk.outs / "h.parquet")
    if not later_has_the_label:
        lines = second.read_text().splitlines()
        second.write_text("\n".join(line.rsplit(",", 1)[0] for line in lines) + "\n")
    later = desk.outs / "later-x.parquet"
    for arguments in (
        ("features", first, "--label", "bought", "--id", "visit", "--out", x),
        ("features", second, "--like", x, "--out", later),
        (
            "train",
            "--release",
            desk.outs / "r.parquet",
            "--features",
            x,
            "--id",
            "visit",
            "--epochs",
            "20",
            "--out",
            run,
        ),
        ("predict", run, "--features", later, "--id", "visit", "--out", desk.outs / "scores.parquet"),
    ):
        done = desk.run(*arguments)
        assert done.code == 0, done.err
    assert pq.read_schema(later) == pq.read_schema(x)
    scores = pq.read_table(desk.outs / "scores.parquet")
    assert scores["id"].to_pylist() == [f"v{i}" for i in range(300, 600)]
    guessed = [p[1] > 0.5 for p in scores["probabilities"].to_pylist()]
    assert guessed == [i % 3 == 1 for i in range(300, 600)]
    heldout = ("--release", desk.outs / "h.parquet", "--features", later, "--id", "visit")
    assert desk.run("evaluate", run, *heldout).code == 0


def test_values_that_are_new_are_said(desk):
    x = desk.outs / "x.parquet"
    assert desk.run("features", visits(desk, range(60)), "--label", "bought", "--out", x).code == 0
    other = desk.csv("page,age,day\nshop,1,2024-01-01\nnew,2,2024-01-01\n", "other.csv")
    done = desk.run("features", other, "--like", x, "--out", desk.outs / "y.parquet")
    assert done.code == 0
    assert f"warning: column 'page' has values that {x} has not, in 1 rows: there all its columns are 0.\n" in done.err


def test_what_cannot_be_is_refused(desk):
    path, out = visits(desk, range(50)), ("--out", desk.out)
    good = ("--label", "bought")
    desk.expect_bad(desk.run("features", path, *out), "--label", "--no-label")
    desk.expect_bad(desk.run("features", path, *good, "--no-label", *out), "--label", "--no-label")
    desk.expect_bad(
        desk.run("features", path, "--label", "brought", "--id", "visit", *out), "its columns are visit, page"
    )
    desk.expect_bad(desk.run("features", path, *good, "--label", "more", *out), "no column 'more'", "visit, page")
    desk.expect_bad(desk.run("features", path, *good, "--id", "uid", *out), "no column 'uid'")
    desk.expect_bad(desk.run("features", path, *good, "--out", desk.outs / "x.csv"), ".parquet")
    desk.expect_bad(desk.run("features", path, *good, "--most-values", "1", *out), "at least 2")
    desk.expect_bad(desk.run("features", desk.files / "none.csv", *good, *out), "there is no file")
    desk.expect_bad(desk.run("features", path, *good, "--out", desk.outs / f"{'x' * 300}.parquet"), "cannot be")
    desk.expect_bad(desk.run("features", path, *good, "--out", desk.outs / "no" / "x.parquet"), "cannot be written")
    desk.expect_bad(desk.run("features", path, "--like", path, *out), "carries no encoding")
    desk.expect_bad(desk.run("features", path, "--like", path, "--no-label", *out), "leave out --no-label")


def test_the_source_and_the_fitted_file_are_not_overwritten(desk):
    path = desk.parquet(a=[1, 2], y=[0, 1])
    before = path.read_bytes()
    expect_sentence(desk.run("features", path, "--label", "y", "--out", path), "is the file that is read")
    assert path.read_bytes() == before
    assert desk.run("features", path, "--label", "y", "--out", desk.out).code == 0
    expect_sentence(desk.run("features", path, "--like", desk.out, "--out", desk.out), "is the file that is read")


def test_no_label_is_quoted(desk):
    """A CSV without a header line, and labels that break it."""
    bare = desk.csv(f"v1,home,{SECRET_TEXT}\nv2,shop,{SECRET_TEXT}\n", "bare.csv")
    desk.expect_bad(desk.run("features", bare, "--label", "bought", "--out", desk.out), "in its first line")
    torn = desk.csv(f"visit,age,bought\nv1,1,{SECRET_TEXT}\nv2,2,{SECRET_TEXT},{SECRET_TEXT}\n", "torn.csv")
    desk.expect_bad(desk.run("features", torn, "--label", "bought", "--out", desk.out), "row 1 ", "3 cells")


def test_several_secrets(desk):
    nested = pa.array([[{"s": SECRET_TEXT}], []])
    path = desk.parquet(a=[1, 2], y=[SECRET_TEXT, "b"], z=nested)
    done = desk.run("features", path, "--label", "y", "--label", "z", "--out", desk.out, "--json")
    assert done.json["columns"] == ["a"]
    assert SECRET_TEXT.encode() not in desk.out.read_bytes()
    assert SECRET_TEXT not in done.out + done.err


def test_an_encoding_from_elsewhere_that_would_read_the_label_is_refused(desk):
    """Whoever made it said that there is no label, and would like to have ours."""
    path = visits(desk, range(100), header="visit,page,age,bought_on,country,bought")
    theirs = desk.outs / "theirs.parquet"
    assert desk.run("features", path, "--no-label", "--out", theirs).code == 0
    refused = desk.run("features", path, "--like", theirs, "--label", "bought", "--out", desk.outs / "x.parquet")
    expect_sentence(refused, "makes features of the column 'bought', which is secret here")
    ours = desk.outs / "ours.parquet"
    assert desk.run("features", path, "--label", "bought", "--out", ours).code == 0
    assert desk.run("features", path, "--like", ours, "--label", "bought", "--out", desk.outs / "x.parquet").code == 0


def test_categories_are_kept(desk):
    """One column of codes for a text, NaN for what is missing, and the same for later rows."""
    path, x, later = visits(desk, range(100)), desk.outs / "x.parquet", desk.outs / "later.parquet"
    done = desk.run(
        "features", path, "--label", "bought", "--id", "visit", "--categories", "keep", "--out", x, "--most-values", "2"
    )
    assert done.code == 0
    assert done.fact("page").strip() == "text: codes 0 to 1, of the most frequent values, the last of all others"
    assert done.fact("age").strip() == "number; missing stays missing"
    assert (
        desk.run("features", path, "--label", "bought", "--id", "visit", "--categories", "keep", "--out", x).code == 0
    )
    read = read_features(x, "visit", missing=True)
    assert (read.columns, read.categorical) == (("page", "age", "day"), ("page",))
    other = desk.csv("visit,page,age,day\nw1,shop,,2024-01-01\nw2,new,2,2024-01-01\n", "other.csv")
    done = desk.run("features", other, "--like", x, "--out", later)
    assert done.code == 0
    assert f"warning: column 'page' has values that {x} has not, in 1 rows: there it is missing.\n" in done.err
    assert str(pq.read_table(later, columns=["page", "age"]).to_pydict()) == "{'page': [2.0, nan], 'age': [nan, 2.0]}"
    desk.released(path, "--id", "visit", label="bought", classes="no,yes", out=desk.outs / "r.parquet")
    trained = ("train", "--release", desk.outs / "r.parquet", "--features", x, "--id", "visit", "--model", "linear")
    refused = desk.run(*trained, "--out", desk.outs / "run")
    expect_sentence(refused, "without --categories keep, or use --model lightgbm")


def test_from_a_csv_without_ids_to_a_model(desk):
    """Row numbers, on both sides in the same order: with --id and without."""
    lines = visits(desk, range(300)).read_text().splitlines()
    path = desk.csv("\n".join(line.split(",", 1)[1] for line in lines) + "\n", "bare.csv")
    x, run, outs = desk.outs / "x.parquet", desk.outs / "run", desk.outs
    done = desk.run("features", path, "--label", "bought", "--add-id", "row", "--out", x)
    assert done.code == 0
    assert f"warning: {NUMBERS}\n" in done.err
    assert done.fact("row").strip() == "added: the row's number in the file"
    for rows in ("0:200", "200:300"):
        desk.released(
            path, "--rows", rows, label="bought", classes="no,yes", epsilon="8", out=outs / f"{rows[0]}.parquet"
        )
    for name in (("--id", "row"), ()):
        trained = desk.run(
            "train", "--release", outs / "0.parquet", "--features", x, *name, "--epochs", "20", "--out", run.with_suffix(f".{len(name)}")
        )  # fmt: skip
        assert trained.code == 0, trained.err
    for name in (("--id", "row"), ()):
        heldout = ("--release", outs / "2.parquet", "--features", x, *name)
        assert desk.run("evaluate", run.with_suffix(".2"), *heldout, "--json").json["accuracy_estimated"] > 0.9
        scores = ("predict", run.with_suffix(".0"), "--features", x, *name, "--out", outs / "scores.parquet")
        assert desk.run(*scores).code == 0
        read = pq.read_table(outs / "scores.parquet")
        assert read["id"].to_pylist() == list(range(300))
        assert [p[1] > 0.5 for p in read["probabilities"].to_pylist()] == [i % 3 == 1 for i in range(300)]


def test_row_numbers_are_no_ids_even_if_the_owner_numbered_alike(desk):
    lines = visits(desk, range(300)).read_text().splitlines()
    bare = [line.split(",", 1)[1] for line in lines]
    path = desk.csv("\n".join(bare) + "\n", "bare.csv")
    numbered = desk.csv("\n".join([f"row,{bare[0]}", *(f"{i},{line}" for i, line in enumerate(bare[1:]))]) + "\n")
    x = desk.outs / "x.parquet"
    assert desk.run("features", path, "--label", "bought", "--add-id", "row", "--out", x).code == 0
    released = desk.outs / "r.parquet"
    desk.released(numbered, "--id", "row", "--shuffle", label="bought", classes="no,yes", epsilon="8", out=released)
    trained = ("train", "--release", released, "--features", x, "--epochs", "1", "--out", desk.outs / "run")
    expect_sentence(desk.run(*trained), "the release names its rows by id")
    expect_sentence(desk.run(*trained, "--id", "row"), "equal numbers would not mean the same row")


def test_what_is_added_or_kept_and_cannot_be_is_refused(desk):
    path, good, out = visits(desk, range(50)), ("--label", "bought"), ("--out", desk.out)
    desk.expect_bad(desk.run("features", path, *good, "--add-id", "visit", *out), "already", "--id visit")
    desk.expect_bad(desk.run("features", path, *good, "--add-id", "bought", *out), "already")
    desk.expect_bad(
        desk.run("features", path, *good, "--add-id", "row", "--id", "visit", *out), "--add-id is for a file"
    )
    desk.expect_bad(desk.run("features", path, *good, "--categories", "some", *out), "--categories is one-hot or keep")
    desk.expect_bad(desk.run("features", path, "--like", path, "--categories", "keep", *out), "leave out --no-label")
    desk.expect_bad(desk.run("features", path, "--like", path, "--add-id", "row", *out), "--add-id, --categories")
