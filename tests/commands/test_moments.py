"""From features and secret labels to moments, a model, its predictions, and a page: `labeldp.commands.moments` and `train`."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.commands import (
    MomentsOptions,
    PredictOptions,
    ReportOptions,
    TrainOptions,
    moments,
    predict,
    report,
    train,
)
from labeldp.errors import InputError

ROWS = 800


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moments")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, ROWS)
    x = rng.normal(size=(ROWS, 3)) + 1.5 * y[:, None] * np.array([1, 0.5, 0])
    (folder / "y.csv").write_text("uid,ill\n" + "".join(f"p{i},{one}\n" for i, one in enumerate(y)))
    columns = {f"c{j}": x[:, j] for j in range(3)}
    pq.write_table(pa.table({"uid": [f"p{i}" for i in range(ROWS)], **columns}), folder / "x.parquet")
    pq.write_table(pa.table({"uid": ["p0", "p1"], "ill": [0.0, 1.0]}), folder / "telling.parquet")
    made = moments(options(folder))
    return folder, y, made


def options(folder, **changes):
    usual = {
        "features": folder / "x.parquet", "labels": folder / "y.csv", "label": "ill", "id_column": "uid", "classes": "2", "epsilon": 4.0,
        "out": folder / "moments.parquet", "ledger": folder / "l.ledger",
    }  # fmt: skip
    return MomentsOptions(**usual | changes)


def test_a_model_from_moments_ranks_and_its_page_is_checked(desk, tmp_path):
    folder, y, made = desk
    assert made.done["charged"]
    run = tmp_path / "run"
    summary = train(
        TrainOptions(moments=folder / "moments.parquet", features=folder / "x.parquet", id_column="uid", out=run)
    )
    assert summary["certificate"] == made.file.certificate()
    assert train(
        TrainOptions(moments=folder / "moments.parquet", features=folder / "x.parquet", id_column="uid", out=run)
    )["given"]
    predict(PredictOptions(folder=run, features=folder / "x.parquet", id_column="uid", out=tmp_path / "p.parquet"))
    p = np.array(pq.read_table(tmp_path / "p.parquet")["probabilities"].to_pylist())[:, 1]
    assert (p[y == 1][:, None] > p[y == 0][None]).mean() > 0.8  # 0.88 without noise
    told = report(ReportOptions(runs=(run,), ledger=folder / "l.ledger", out=tmp_path / "page.html")).to_json()
    assert told["runs"][0]["certificate"]["epsilon"] == made.file.certificate()["epsilon"]
    page = (tmp_path / "page.html").read_text()
    assert "moments of 800 rows" in page
    assert "not checked" not in page


def test_a_model_from_a_histogram_ranks_and_its_page_is_checked(desk, tmp_path):
    folder, y, _ = desk
    file, ledger, run = tmp_path / "h.parquet", tmp_path / "h.ledger", tmp_path / "run"
    made = moments(options(folder, pure=True, out=file, ledger=ledger, recipient="Ann"))
    assert made.done["charged"]
    assert made.file.certificate()["delta"] == 0
    asked = TrainOptions(moments=file, features=folder / "x.parquet", id_column="uid", out=run)
    assert train(asked)["certificate"] == made.file.certificate()
    assert train(asked)["given"]
    predict(PredictOptions(folder=run, features=folder / "x.parquet", id_column="uid", out=tmp_path / "p.parquet"))
    p = np.array(pq.read_table(tmp_path / "p.parquet")["probabilities"].to_pylist())[:, 1]
    assert (p[y == 1][:, None] > p[y == 0][None]).mean() > 0.75
    page = tmp_path / "page.html"
    told = report(ReportOptions(runs=(run,), ledger=ledger, out=page)).to_json()
    assert told["runs"][0]["checked"]
    assert told["runs"][0]["certificate"]["epsilon"] == made.file.certificate()["epsilon"]
    assert "a histogram of labels of 800 rows" in page.read_text()
    summary = json.loads((run / "summary.json").read_text())
    summary["certificate"]["epsilon"] = 0.001
    (run / "summary.json").write_text(json.dumps(summary))
    for again in (lambda: train(asked), lambda: report(ReportOptions(runs=(run,), out=page))):
        with pytest.raises(InputError, match="another certificate than its moments prove"):
            again()


def test_a_summary_that_promises_more_is_refused(desk, tmp_path):
    folder, _, _ = desk
    run = tmp_path / "run"
    asked = TrainOptions(moments=folder / "moments.parquet", features=folder / "x.parquet", id_column="uid", out=run)
    train(asked)
    summary = json.loads((run / "summary.json").read_text())
    summary["certificate"]["epsilon"] = 0.001
    (run / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(InputError, match="another certificate than its moments prove"):
        train(asked)
    with pytest.raises(InputError, match="another certificate than its moments prove"):
        report(ReportOptions(runs=(run,), out=tmp_path / "page.html"))


def test_what_cannot_be_is_refused(desk, tmp_path):
    folder, _, _ = desk
    with pytest.raises(InputError, match="leave it out"):
        moments(options(folder, features=folder / "telling.parquet", out=tmp_path / "m.parquet"))
    with pytest.raises(InputError, match="`epochs`, `seed`"):
        train(
            TrainOptions(
                moments=folder / "moments.parquet", features=folder / "x.parquet", id_column="uid", out=tmp_path / "r", epochs=3, seed=1
            )
        )  # fmt: skip
    few = pq.read_table(folder / "x.parquet").slice(0, 10)
    pq.write_table(few, tmp_path / "few.parquet")
    with pytest.raises(InputError, match="summed over 800 rows"):
        train(
            TrainOptions(
                moments=folder / "moments.parquet",
                features=tmp_path / "few.parquet",
                id_column="uid",
                out=tmp_path / "r2",
            )
        )
