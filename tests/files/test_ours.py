"""What a file says that it is, for an error's sentence."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.files.ours import described_file, our_file

FORMAT = {"format": 1}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({**FORMAT, "statistic": {"name": "score"}}, "a score, which `labeldp inspect`"),
        ({**FORMAT, "statistic": {"name": "moments"}}, "which `labeldp train --moments` reads"),
        ({**FORMAT, "statistic": {"name": "histogram"}}, "which `labeldp train --moments` reads"),
        ({**FORMAT, "statistic": {"name": "of tomorrow"}}, "one statistic of labels, which `labeldp inspect` reads"),
        ({**FORMAT, "statistic": {"name": ["score"]}}, "one statistic of labels"),
        ({**FORMAT, "statistic": {}, "mechanism": {}}, "one statistic of labels"),
        ({**FORMAT, "mechanism": {"name": "response"}}, "a release of rows, which `labeldp train --release` reads"),
        ({"releases": []}, "a file of probabilities, which `labeldp score` and `labeldp audit` read"),
    ],
)
def test_what_it_is(tmp_path, header, words):
    table = pa.table({"a": [1]}).replace_schema_metadata({"labeldp": json.dumps(header)})
    pq.write_table(table, tmp_path / "f")
    found = our_file(tmp_path / "f")
    assert words in found.words
    assert (found.statistic, found.rows_released) == ("statistic" in header, set(header) == {"format", "mechanism"})
    assert "tomorrow" not in found.words  # its own words are quoted nowhere


def test_features_say_so():
    assert "`labeldp train --features`" in described_file({b"labeldp.encoding": b"{}"}).words


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"3", b"null", b"\xff", b"[" * 100_000, b'{"format": 1}', b'{"format": 1, "mechanism": 3}'],
)
def test_what_says_nothing_is_nobodys(text):
    assert described_file({b"labeldp": text}) is None


def test_no_such_file(tmp_path):
    (tmp_path / "text").write_text("a,b\n")
    for path in (tmp_path, tmp_path / "none", tmp_path / "text"):
        assert our_file(path) is None
    assert described_file(None) is None
    assert described_file({b"pandas": b"{}"}) is None
