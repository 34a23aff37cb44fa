"""Releases with a public prior for each row: joined by id, refused where it would show labels, and the same request only with the same."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import SecureEntropy, SeededEntropy
from labeldp.errors import AlreadyReleasedError, InputError, RefusedError
from labeldp.mechanisms.candidates import most_likely
from labeldp.release.make import make_release
from labeldp.release.prior import PublicPrior
from labeldp.release.rows import Part, Span
from labeldp.training.scores import write_scores
from tests.release.test_make import IDS, ROWS, Y, charges, ledger, source  # noqa: F401

ABOUT = {"release": "0" * 64, "seed": 0, "holdout": 0.1, "insecure": None}


def beliefs(seed=0, sharpness=3.0):
    """A prior that is often right: for tests labels may help to make one."""
    logits = np.random.default_rng(seed).normal(size=(ROWS, 10)) + sharpness * np.eye(10)[Y]
    odds = np.exp(logits)
    return (odds / odds.sum(axis=1, keepdims=True)).astype(np.float32)


def released(ledger, prior, *, mechanism=None, epsilon=1.0, selected=None, entropy=None, labels=Y, ids=IDS):  # noqa: F811
    entropy = entropy or SecureEntropy()
    given = source(labels, ids)
    aware, draw, about = prior.prepared(given, selected, epsilon, mechanism, entropy)
    return make_release(
        given, aware, data_set="visits", ledger=ledger, entropy=entropy, selected=selected, draw=draw, about=about
    )


def load(made):
    return labeldp.Release.load(made.path)


@pytest.mark.parametrize("mechanism", ["subset", "response"])
def test_every_row_gets_the_channel_of_its_own_prior(ledger, mechanism):  # noqa: F811
    order = np.random.default_rng(1).permutation(ROWS)
    prior = PublicPrior.of(beliefs()[order], IDS[order], ABOUT)  # in another order than the labels
    release = load(released(ledger, prior, mechanism=mechanism))
    assert release.guarantee.epsilon <= 1.0
    assert (release.mechanism.row_certificates(release.observations) <= 1.0).all()
    if mechanism == "response":
        expected = most_likely(beliefs(), 1.0)
        np.testing.assert_array_equal(release.observations[:, :2], expected.candidates)
    # Posterior with the prior beats the prior: the right class gains. Were rows mixed up, it would lose.
    log = np.log(beliefs().astype(np.float64)) + release.evidence()
    posterior = np.exp(log - np.logaddexp.reduce(log, axis=1, keepdims=True))
    gain = np.log(posterior[np.arange(ROWS), Y]) - np.log(beliefs()[np.arange(ROWS), Y])
    assert gain.mean() > 5 * gain.std() / np.sqrt(ROWS)


def test_by_row_number(ledger):  # noqa: F811
    prior = PublicPrior.of(beliefs(), None, ABOUT)
    release = load(released(ledger, prior, selected=Span(500, 900), ids=None))
    assert release.ids.tolist() == list(range(500, 900))
    np.testing.assert_array_equal(
        release.observations[:, :2],
        load(released(labeldp.Ledger(ledger.path.with_name("o")), PublicPrior.of(beliefs(), IDS, ABOUT))).observations[
            500:900, :2
        ],
    )


def test_the_same_again_is_free_and_another_prior_is_another_request(ledger):  # noqa: F811
    first = released(ledger, PublicPrior.of(beliefs(), IDS, ABOUT))
    again = released(ledger, PublicPrior.of(beliefs(), IDS, ABOUT))
    assert (first.charged_now, again.charged_now) == (True, False)
    with pytest.raises(AlreadyReleasedError, match="the public prior"):
        released(ledger, PublicPrior.of(beliefs(seed=1), IDS, ABOUT))
    assert charges(ledger) == 1


def test_a_prior_without_doubt_costs_nothing_and_says_nothing(ledger):  # noqa: F811
    release = load(released(ledger, PublicPrior.of(np.eye(10)[np.arange(ROWS) % 10], IDS, ABOUT)))
    assert release.guarantee.epsilon == 0.0
    assert not release.mechanism.informative(release.observations).any()
    assert not release.evidence().any()


def test_a_prior_from_an_unprotected_model_is_refused(ledger):  # noqa: F811
    exposed = PublicPrior.of(beliefs(), IDS, {**ABOUT, "insecure": "no privacy: the observations are the true labels"})
    with pytest.raises(RefusedError, match="not protected"):
        released(ledger, exposed)
    assert charges(ledger) == 0
    release = load(released(ledger, exposed, entropy=SeededEntropy(0)))  # insecure anyway, and marked so
    assert release.insecure


def test_unknown_origin_is_said():
    assert PublicPrior.of(beliefs(), IDS, {}).warnings
    assert not PublicPrior.of(beliefs(), IDS, ABOUT).warnings


def bad(change):
    values = beliefs()
    change(values)
    return values


@pytest.mark.parametrize(
    ("values", "ids", "message"),
    [
        (beliefs()[:, :9], IDS, "9 probabilities a row; 10 classes"),
        (beliefs()[:-1], IDS[:-1], f"row {ROWS - 1} has no probabilities"),
        (beliefs(), None, "by id and"),
        (bad(lambda v: v.__setitem__((7, 3), np.nan)), IDS, "row 7"),
        (bad(lambda v: v.__setitem__((7, 3), -1.0)), IDS, "row 7"),
        (bad(lambda v: v.__setitem__(7, 0.0)), IDS, "row 7"),
    ],
)
def test_bad_priors_are_refused_before_anything_is_charged(ledger, values, ids, message):  # noqa: F811
    with pytest.raises(InputError, match=message):
        released(ledger, PublicPrior.of(values, ids, ABOUT))
    assert charges(ledger) == 0


def test_other_mechanisms_have_no_form_for_a_prior(ledger):  # noqa: F811
    with pytest.raises(InputError, match="laplace"):
        released(ledger, PublicPrior.of(beliefs(), IDS, ABOUT), mechanism="laplace")


def test_ids_that_repeat():
    with pytest.raises(InputError, match="repeat"):
        PublicPrior.of(beliefs()[:2], ["a", "a"])


def test_files(tmp_path, ledger):  # noqa: F811
    write_scores(tmp_path / "p.parquet", IDS, beliefs(), {**ABOUT, "named": True})
    write_scores(tmp_path / "n.parquet", np.arange(ROWS), beliefs(), {**ABOUT, "named": False})
    write_scores(tmp_path / "n.npy", np.arange(ROWS), beliefs())
    by_id = load(released(ledger, PublicPrior.read(tmp_path / "p.parquet"), selected=Part(1, 2)))
    assert by_id.header["public_prior"]["seed"] == 0
    for number, name in enumerate(("n.parquet", "n.npy")):
        other = labeldp.Ledger(tmp_path / f"{number}.ledger")
        assert len(load(released(other, PublicPrior.read(tmp_path / name), ids=None))) == ROWS
    hostile = {"release": "x" * 10_000, "seed": "0", "holdout": [1], "insecure": None}
    table = pa.table({"id": IDS, "probabilities": list(beliefs())})
    pq.write_table(
        table.replace_schema_metadata({b"labeldp": str(hostile).replace("'", '"').replace("None", "null").encode()}),
        tmp_path / "h.parquet",
    )
    said = PublicPrior.read(tmp_path / "h.parquet").said(most_likely(beliefs(), 1.0))["public_prior"]
    assert {name: said[name] for name in ("release", "seed", "holdout")} == dict.fromkeys(
        ("release", "seed", "holdout")
    )


def test_labels_do_not_choose_channels(ledger, tmp_path):  # noqa: F811
    """The public half of an observation is a function of the prior alone."""
    prior = PublicPrior.of(beliefs(), IDS, ABOUT)
    one = load(released(ledger, prior, entropy=SeededEntropy(0)))
    two = load(
        released(
            labeldp.Ledger(tmp_path / "o"),
            prior,
            entropy=SeededEntropy(0),
            labels=np.random.default_rng(5).permutation(Y),
        )
    )
    np.testing.assert_array_equal(one.observations[:, :2], two.observations[:, :2])
    assert one.mechanism == two.mechanism
