"""`labeldp.commands.score` from Python: models by id, what is refused before anything is charged, what is said."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.accounting.ledger import Ledger
from labeldp.commands import ScoreOptions, score
from labeldp.errors import InputError
from labeldp.statistics import ModelChosen, Score

ROWS = 600


def predictions(path, ids, second, about=b"{}"):
    table = pa.table({"id": ids, "probabilities": [[1 - float(p), float(p)] for p in second]})
    pq.write_table(table.replace_schema_metadata({b"labeldp": about}), path)
    return path


@pytest.fixture
def desk(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.beta(1, 2, ROWS)
    y = rng.random(ROWS) < p
    lines = [f"v{i},{'yes' if one else 'no'}" for i, one in enumerate(y)]
    (tmp_path / "y.csv").write_text("\n".join(["visit,bought", *lines]) + "\n")
    ids = [f"v{i}" for i in range(ROWS)]
    predictions(tmp_path / "a.parquet", ids, p)
    back = rng.permutation(ROWS)
    predictions(tmp_path / "b.parquet", [ids[i] for i in back], p[back])
    return tmp_path


def options(desk, *names, **changes):
    usual = {
        "predictions": tuple(desk / f"{name}.parquet" for name in names), "labels": desk / "y.csv", "label": "bought", "id_column": "visit",
        "classes": "no,yes", "epsilon": 1.0, "out": desk / "out.parquet", "ledger": desk / "l.ledger",
    }  # fmt: skip
    return ScoreOptions(**usual | changes)


def test_models_are_joined_by_id_whatever_their_order(desk):
    """The same predictions in another order have the same bins and, at an ε of 32, the same counts."""
    made = score(options(desk, "a", "b", epsilon=32.0))
    assert isinstance(made.file, Score)
    first, second = (made.file.counts(model).counts for model in ("a", "b"))
    np.testing.assert_array_equal(first, second)
    assert made.done["charged"]
    assert Score.load(desk / "out.parquet").checksum == made.file.checksum


def test_a_choice_releases_a_name(desk):
    predictions(desk / "c.parquet", [f"v{i}" for i in range(ROWS)], np.full(ROWS, 0.99))
    made = score(options(desk, "c", "a", choose="log_loss", epsilon=16.0))
    assert isinstance(made.file, ModelChosen)
    assert made.file.model == "a"  # by hundreds of nats, at a rate of 16 over at most 10


@pytest.mark.parametrize(
    ("names", "changes", "said"),
    [
        (("a", "a"), {}, "there twice"),
        (("a", "few"), {}, "other rows than"),
        (("a",), {"id_column": None}, "name their rows by id"),
        (("a", "b"), {"choose": "roc_auc"}, "roc_auc"),
        (("a",), {"choose": "accuracy"}, "between 2"),
        (("a", "b"), {"choose": "accuracy", "bins": 4}, "no bins"),
        (("a",), {"classes": "3"}, "class"),
        (("elsewhere",), {}, "not in the file"),
        (("a",), {"recipient": "two\nlines"}, "recipient"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_charged(desk, names, changes, said):
    predictions(desk / "few.parquet", ["v0", "v1"], [0.5, 0.5])
    predictions(desk / "elsewhere.parquet", [f"w{i}" for i in range(ROWS)], np.full(ROWS, 0.3))
    with pytest.raises(InputError, match=said):
        score(options(desk, *names, **changes))
    assert not (desk / "out.parquet").exists()
    assert not (desk / "l.ledger").exists()


def test_a_model_of_these_rows_is_said_to_be_one(desk):
    """By what its predictions say of their releases; and to whom a file went is what was said first."""
    first = score(options(desk, "a", recipient="them", budget=9.0))
    assert first.done["warnings"] == []
    checksum = next(iter(Ledger(desk / "l.ledger").book().releases.values())).checksum
    predictions(
        desk / "d.parquet",
        [f"v{i}" for i in range(ROWS)],
        np.full(ROWS, 0.3),
        f'{{"releases": ["{checksum}"]}}'.encode(),
    )
    again = score(options(desk, "d", again="charge", out=desk / "second.parquet"))
    assert any("training performance" in one for one in again.done["warnings"])
    other = score(options(desk, "a", recipient="others"))
    assert not other.done["charged"]
    assert any("'them'" in one for one in other.done["warnings"])
    assert other.file.header["handed_over"] == {"recipient": "them"}
