"""Releases with a public prior for each row: joined by id, refused where it would show labels, and the same request only with the same."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp import SecureEntropy, SeededEntropy, SubsetSelection
from labeldp.errors import AlreadyReleasedError, InputError, RefusedError
from labeldp.files.predictions import write_predictions
from labeldp.files.tables import open_table
from labeldp.mechanisms.candidates import most_likely
from labeldp.release.classes import Classes
from labeldp.release.joint import join_releases
from labeldp.release.make import make_release
from labeldp.release.order import Order
from labeldp.release.prior import GIVEN, PriorOrigin, PublicPrior
from labeldp.release.rows import Part, Span
from labeldp.release.source import TableSource
from tests.release.test_make import IDS, ROWS, Y, charges, source

ABOUT = {
    "release": "0" * 64, "releases": ["0" * 64], "judge": "0" * 64, "seed": 0, "holdout": 0.1, "select": "last", "insecure": None,
    "certificate": {"epsilon": 0.5, "delta": 0.0, "reason": None},
}  # fmt: skip


def beliefs(seed=0, sharpness=3.0):
    """A prior that is often right: for tests labels may help to make one."""
    logits = np.random.default_rng(seed).normal(size=(ROWS, 10)) + sharpness * np.eye(10)[Y]
    odds = np.exp(logits)
    return (odds / odds.sum(axis=1, keepdims=True)).astype(np.float32)


def released(ledger, prior, *, mechanism=None, epsilon=1.0, selected=None, entropy=None, labels=Y, ids=IDS):
    entropy = entropy or SecureEntropy()
    order = ordered(
        prior, source(labels, ids), epsilon=epsilon, entropy=entropy, mechanism=mechanism, selected=selected
    )
    return make_release(order, ledger=ledger, entropy=entropy)


def ordered(prior, given=None, *, epsilon=1.0, entropy=None, **options):
    """By their own priors."""
    entropy = entropy or SecureEntropy()
    return Order.with_prior(prior, given or source(), "visits", epsilon=epsilon, entropy=entropy, **options)


def plainly(ledger, mechanism, selected=None, again=None):
    order = Order(source(), mechanism, "visits", selected=selected)
    return load(make_release(order, ledger=ledger, entropy=SecureEntropy(), again=again))


def load(made):
    return labeldp.Release.load(made.path)


@pytest.mark.parametrize("mechanism", ["subset", "response"])
def test_every_row_gets_the_channel_of_its_own_prior(ledger, mechanism):
    order = np.random.default_rng(1).permutation(ROWS)
    prior = PublicPrior.of(beliefs()[order], IDS[order], ABOUT)  # in another order than the labels
    release = load(released(ledger, prior, mechanism=mechanism))
    assert release.mechanism.guarantee().epsilon <= 1.0
    assert (release.mechanism.row_certificates(release.observations) <= 1.0).all()
    if mechanism == "response":
        expected = most_likely(beliefs(), 1.0)
        np.testing.assert_array_equal(release.observations[:, :2], expected.candidates)
    # Posterior with the prior beats the prior: the right class gains. Were rows mixed up, it would lose.
    # In 60 releases the mean was 6.6 ± 1.0 (response) and 10.2 ± 1.1 (subset) standard errors: a false alarm is rarer than 1e-7.
    log = np.log(beliefs().astype(np.float64)) + release.evidence()
    posterior = np.exp(log - np.logaddexp.reduce(log, axis=1, keepdims=True))
    gain = np.log(posterior[np.arange(ROWS), Y]) - np.log(beliefs()[np.arange(ROWS), Y])
    assert gain.mean() > gain.std() / np.sqrt(ROWS)


def test_by_row_number(ledger):
    prior = PublicPrior.of(beliefs(), None, ABOUT)
    release = load(released(ledger, prior, selected=Span(500, 900), ids=None))
    assert release.ids.tolist() == list(range(500, 900))
    np.testing.assert_array_equal(
        release.observations[:, :2],
        load(released(labeldp.Ledger(ledger.path.with_name("o")), PublicPrior.of(beliefs(), IDS, ABOUT))).observations[
            500:900, :2
        ],
    )


def test_the_same_again_is_free_and_another_prior_is_another_request(ledger):
    first = released(ledger, PublicPrior.of(beliefs(), IDS, ABOUT))
    again = released(ledger, PublicPrior.of(beliefs(), IDS, ABOUT))
    assert (first.charged_now, again.charged_now) == (True, False)
    with pytest.raises(AlreadyReleasedError, match="the public prior"):
        released(ledger, PublicPrior.of(beliefs(seed=1), IDS, ABOUT))
    assert charges(ledger) == 1


def test_a_prior_without_doubt_costs_nothing_and_says_nothing(ledger):
    release = load(released(ledger, PublicPrior.of(np.eye(10)[np.arange(ROWS) % 10], IDS, ABOUT)))
    assert release.mechanism.guarantee().epsilon == 0.0
    assert release.guarantee.epsilon == 0.5  # of the labels behind the prior
    assert ledger.book().data_sets["visits"].caps.pure == 1.0  # what was asked for: a cap of 0 would promise too much
    assert not release.mechanism.informative(release.observations).any()
    assert not release.evidence().any()


def test_a_prior_from_an_unprotected_model_is_refused(ledger):
    exposed = PublicPrior.of(beliefs(), IDS, {**ABOUT, "insecure": "no privacy: the observations are the true labels"})
    with pytest.raises(RefusedError, match="not protected"):
        released(ledger, exposed)
    assert charges(ledger) == 0
    release = load(released(ledger, exposed, entropy=SeededEntropy(0)))  # insecure anyway, and marked so
    assert release.insecure


def test_unknown_origin_is_said(ledger):
    assert "nothing says" in PublicPrior.of(beliefs(), IDS, {}).warnings(ledger)[0]
    assert "this ledger does not know" in PublicPrior.of(beliefs(), IDS, ABOUT).warnings(ledger)[0]


def test_a_release_that_this_ledger_does_not_know_may_be_of_the_same_rows(ledger):
    release = load(released(ledger, PublicPrior.of(beliefs(), IDS, ABOUT)))
    assert release.guarantee.epsilon == 0.5 + release.mechanism.guarantee().epsilon


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
def test_bad_priors_are_refused_before_anything_is_charged(ledger, values, ids, message):
    with pytest.raises(InputError, match=message):
        released(ledger, PublicPrior.of(values, ids, ABOUT))
    assert charges(ledger) == 0


def test_other_mechanisms_have_no_form_for_a_prior(ledger):
    with pytest.raises(InputError, match="laplace"):
        released(ledger, PublicPrior.of(beliefs(), IDS, ABOUT), mechanism="laplace")


def test_ids_that_repeat():
    with pytest.raises(InputError, match="repeat"):
        PublicPrior.of(beliefs()[:2], ["a", "a"])


def test_files(tmp_path, ledger):
    write_predictions(tmp_path / "p.parquet", IDS, beliefs(), {**ABOUT, "named": True})
    write_predictions(tmp_path / "n.parquet", np.arange(ROWS), beliefs(), {**ABOUT, "named": False})
    write_predictions(tmp_path / "n.npy", np.arange(ROWS), beliefs())
    by_id = load(released(ledger, PublicPrior.read(tmp_path / "p.parquet"), selected=Part(1, 2)))
    assert by_id.header["public_prior"]["seed"] == 0
    for number, name in enumerate(("n.parquet", "n.npy")):
        other = labeldp.Ledger(tmp_path / f"{number}.ledger")
        assert len(load(released(other, PublicPrior.read(tmp_path / name), ids=None))) == ROWS


HOSTILE = [
    {"release": "x" * 10_000, "releases": ["x"], "seed": "0", "holdout": [1]},
    {**ABOUT, "seed": True},
    {**ABOUT, "seed": 10**400},
    {**ABOUT, "holdout": float("nan")},
    {**ABOUT, "holdout": 1e999},
    {**ABOUT, "judge": "\x1b[2J" * 8},
    {**ABOUT, "select": None},
]


@pytest.mark.parametrize("about", HOSTILE)
def test_metadata_that_lies_is_not_believed(about):
    origin = PublicPrior.of(beliefs(), IDS, about).claimed()
    assert (origin.judge, origin.seed, origin.holdout, origin.select) == (None,) * 4
    assert PriorOrigin.from_json(json.loads(json.dumps(origin.to_json()))) == origin


@pytest.mark.parametrize(
    "certificate", [None, {}, "x", {"epsilon": -1, "delta": 0}, {"epsilon": float("inf"), "delta": 0}]
)
def test_without_a_usable_certificate_the_origin_is_unknown(tmp_path, certificate):
    prior = PublicPrior.of(beliefs(), IDS, {**ABOUT, "certificate": certificate})
    assert not prior.claimed().known
    assert prior.warnings(labeldp.Ledger(tmp_path / "l"))


def write(path, ids, about=None):
    table = pa.table({"id": ids, "probabilities": list(beliefs()[: len(ids)])})
    text = b"{}" if about is None else about
    pq.write_table(table.replace_schema_metadata({b"labeldp": text}), path)


def test_odd_files_are_told_apart_in_sentences(tmp_path):
    write(tmp_path / "lists.parquet", [[1], [2]])
    write(tmp_path / "text.parquet", ["a", "b"], b'{"named": false}')
    write(tmp_path / "none.parquet", [1, None], b'{"named": false}')
    write(tmp_path / "deep.parquet", [1, 2], b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    np.save(tmp_path / "flat.npy", np.float64(1))
    (tmp_path / "zip.npy").write_bytes(b"PK\x03\x04 and no more")
    for name in ("lists.parquet", "text.parquet", "none.parquet", "deep.parquet", "zip.npy", "nowhere.npy"):
        with pytest.raises(InputError):
            PublicPrior.read(tmp_path / name)


def test_a_number_is_no_table(ledger):
    with pytest.raises(InputError, match="0 probabilities a row"):
        released(ledger, PublicPrior.of(np.float64(1), None), ids=None)
    with pytest.raises(InputError, match="must be the same"):
        released(ledger, PublicPrior.of(np.concatenate([beliefs(), beliefs()]), None), ids=None)


def test_nothing_in_a_shuffled_file_tells_the_order_of_the_source(tmp_path):
    """A digest of channels in the source's order would let anyone confirm a guessed order, and so, of a file sorted by label, a label."""
    headers = []
    for number, order in enumerate((np.arange(ROWS), np.argsort(Y, kind="stable"))):
        own = labeldp.Ledger(tmp_path / f"{number}.ledger")
        mixed = ordered(PublicPrior.of(beliefs(), IDS, ABOUT), source(Y[order], IDS[order]), shuffle=True)
        made = make_release(mixed, ledger=own, entropy=SecureEntropy())
        header = load(made).header
        headers.append({name: value for name, value in header.items() if name not in ("made", "ledger")})
    assert headers[0] == headers[1]


def trained_on(release, epsilon=None):
    """What `labeldp predict` would say of a model of this release."""
    certificate = {**release.certificate(), **({} if epsilon is None else {"epsilon": epsilon})}
    return {**ABOUT, "releases": list(release.behind), "judge": release.checksum, "certificate": certificate}


def test_what_is_behind_the_prior_counts(tmp_path):
    own = labeldp.Ledger(tmp_path / "l", budget=10.0)
    strong = SubsetSelection.calibrated(epsilon=4.0, num_classes=10)
    first = plainly(own, strong, Part(1, 2))
    # A model of other rows: a label behind the prior has its own release's ε, not this one's.
    second = load(released(own, PublicPrior.of(beliefs(), IDS, trained_on(first)), selected=Part(2, 2)))
    assert second.mechanism.guarantee().epsilon <= 1.0
    assert second.guarantee.epsilon == first.guarantee.epsilon
    assert join_releases([first, second]).guarantee.epsilon == first.guarantee.epsilon
    assert join_releases([second, first]).certificate()["epsilon"] == first.guarantee.epsilon
    assert second.header["public_prior"]["before"] == [first.checksum]


@pytest.mark.parametrize("about", [{}, ABOUT, None])
def test_what_a_file_says_of_itself_never_makes_the_certificate_smaller(tmp_path, about):
    """No word of where it comes from, a foreign release, a release that cost less than it did: the ledger knows better."""
    own = labeldp.Ledger(tmp_path / "l", budget=10.0)
    strong = SubsetSelection.calibrated(epsilon=4.0, num_classes=10)
    first = plainly(own, strong, Part(1, 2))
    prior = PublicPrior.of(beliefs(), IDS, trained_on(first, 0.01) if about is None else about)
    second = load(released(own, prior, selected=Part(2, 2)))
    assert second.guarantee.epsilon >= first.guarantee.epsilon


def test_candidates_that_encode_an_earlier_release_of_the_same_rows(tmp_path):
    """The issue's attack: the prior's candidates are an earlier release of these rows, its metadata names another release.

    Each label has then paid both, and the file says so: 2, not 1.
    """
    own = labeldp.Ledger(tmp_path / "l", budget=10.0)
    plain = labeldp.RandomizedResponse.calibrated(epsilon=1.0, num_classes=10)
    harmless, earlier = (plainly(own, plain, Part(number, 2)) for number in (1, 2))
    encoded = np.full((ROWS, 10), 1e-3)
    encoded[np.searchsorted(IDS, earlier.ids), earlier.observations] = 1.0
    encoded /= encoded.sum(axis=1, keepdims=True)
    hostile = ordered(PublicPrior.of(encoded, IDS, trained_on(harmless)), selected=Part(2, 2))
    again = load(make_release(hostile, ledger=own, entropy=SecureEntropy(), again="charge"))
    assert again.guarantee.epsilon == pytest.approx(earlier.guarantee.epsilon + hostile.mechanism.guarantee().epsilon)
    assert "only what this ledger had released" in again.certificate()["given"]


def test_a_prior_from_the_same_rows_adds(tmp_path):
    own = labeldp.Ledger(tmp_path / "l", budget=10.0)
    strong = SubsetSelection.calibrated(epsilon=4.0, num_classes=10)
    first = plainly(own, strong)
    order = ordered(PublicPrior.of(beliefs(), IDS, trained_on(first, 0.01)))  # and it lies about what it cost
    second = load(make_release(order, ledger=own, entropy=SecureEntropy(), again="charge"))
    assert second.guarantee.epsilon == first.guarantee.epsilon + order.mechanism.guarantee().epsilon
    assert second.header["certificate"]["epsilon"] == second.guarantee.epsilon


def test_a_join_without_what_is_behind_adds(tmp_path):
    """Rows of the first half were released twice; the prior comes from the other time."""
    own = labeldp.Ledger(tmp_path / "l", budget=10.0)
    plain = SubsetSelection.calibrated(epsilon=1.0, num_classes=10)
    one, other = (plainly(own, plain, Part(1, 2), again="charge") for _ in range(2))
    assert one.checksum != other.checksum
    second = load(released(own, PublicPrior.of(beliefs(), IDS, trained_on(other)), selected=Part(2, 2)))
    joint = join_releases([one, second])
    assert joint.guarantee.epsilon == pytest.approx(2 * one.guarantee.epsilon)
    assert set(joint.behind) == {one.checksum, second.checksum, other.checksum}


@pytest.mark.parametrize("about", [{}, ABOUT])
def test_what_a_prior_takes_for_granted_is_said_whatever_its_file_says(ledger, about):
    release = load(released(ledger, PublicPrior.of(beliefs(), IDS, about)))
    assert release.certificate()["given"] == release.header["certificate"]["given"] == GIVEN


def test_a_file_that_changes_while_channels_are_chosen_is_refused(tmp_path, ledger):
    path = tmp_path / "labels.csv"
    path.write_text("uid,y\n" + "".join(f"{i},{y}\n" for i, y in zip(IDS, Y, strict=True)))
    order = ordered(PublicPrior.of(beliefs(), IDS, ABOUT), TableSource(open_table(path), "y", Classes(10), "uid"))
    path.write_text("uid,y\n" + "".join(f"{i},{y}\n" for i, y in zip(IDS[::-1], Y[::-1], strict=True)) + "\n")
    with pytest.raises(InputError, match="changed while its release was being prepared"):
        make_release(order, ledger=ledger, entropy=SecureEntropy())
    assert charges(ledger) == 0


def test_labels_do_not_choose_channels(ledger, tmp_path):
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
