"""One account for each id, over all data sets of a ledger: through real ledgers, and against a naive count."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import labeldp
from labeldp.accounting.entries import ORIGINAL
from labeldp.accounting.statement import published, statement
from labeldp.errors import AlreadyReleasedError, BudgetError, LabelDPError, RefusedError, VerificationError
from labeldp.release.copies import verify
from labeldp.release.release import Release
from labeldp.release.rows import Part
from tests.commands.releasing import release_file

ONE = labeldp.RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
HALF = labeldp.RandomizedResponse.calibrated(epsilon=0.5, num_classes=2)
GAUSSIAN = labeldp.Gaussian.calibrated(epsilon=1.0, num_classes=2)
OLDER = Path(__file__).parent / "older"


def release(path, ids, data_set, mechanism=ONE, again=None, entropy=None, ids_as_written=False, **ledger):
    ids = [str(i) for i in ids]
    return mechanism.release(
        np.zeros(len(ids), int), data_set=data_set, ids=ids, ledger=labeldp.Ledger(path, **ledger), again=again, entropy=entropy,
        ids_as_written=ids_as_written,
    )  # fmt: skip


def data_set(path, name):
    return labeldp.Ledger(path).book().data_sets[name]


def test_last_months_export_and_one_more_row_is_refused(tmp_path):
    """The issue's own example."""
    path = tmp_path / "l"
    release(path, range(1000), "march", budget=1.0)
    with pytest.raises(
        AlreadyReleasedError, match=r"1,000 of these 1,001 ids were released before, in data set 'march'"
    ) as told:
        release(path, range(1001), "april", budget=1.0)
    for word in ("'march'", "'april'", "`budget=2, raise_budget=True`", "`other_ids='NAME'`", "`again='charge'`"):
        assert word in str(told.value)
    with pytest.raises(BudgetError, match="which raises 'april' and 'march'"):
        release(path, range(1001), "april", again="charge", budget=1.0)
    assert list(labeldp.Ledger(path).book().data_sets) == ["march"]
    assert published(data_set(path, "march")) == "every label has ε = 1 (pure label-DP)"


def test_a_larger_budget_of_one_data_set_does_not_loosen_anothers(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "march", budget=1.0)
    with pytest.raises(BudgetError, match=r"pure ε = 1 for 'march'.* \(which raises 'march'\)"):
        release(path, range(5, 20), "april", again="charge", budget=9.0)


def test_raising_raises_every_data_set_that_holds_these_ids_on_the_record(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "march", budget=1.0)
    release(path, range(50, 60), "apart", budget=1.0)
    made = release(path, range(5, 20), "april", again="charge", budget=2.0, raise_budget=True)
    march, apart = data_set(path, "march"), data_set(path, "apart")
    assert (march.caps.pure, len(march.raised), apart.caps.pure, apart.raised) == (2.0, 1, 1.0, [])
    total = 2 * ONE.certificate().pure
    for name in ("march", "april"):
        assert data_set(path, name).spent().pure == pytest.approx(total)
        assert data_set(path, name).publishable()["epsilon"] == 2.0
    assert made.header["budget"]["publishable"]["epsilon"] == 2.0
    assert made.header["budget"]["of"] == "ids"


def test_within_the_caps_an_overlap_still_asks(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "march", mechanism=HALF, budget=1.0)
    with pytest.raises(AlreadyReleasedError, match="5 of these 10 ids"):
        release(path, range(5, 15), "april", mechanism=HALF, budget=1.0)
    release(path, range(5, 15), "april", mechanism=HALF, budget=1.0, again="charge")
    assert data_set(path, "march").spent().pure == pytest.approx(2 * HALF.certificate().pure)
    assert data_set(path, "march").publishable()["epsilon"] == 1.0


def test_rows_that_a_data_set_holds_but_has_not_released_are_under_its_budget(tmp_path):
    path = tmp_path / "labels.csv"
    with path.open("w") as file:
        csv.writer(file).writerows([("id", "y"), *((f"u{i}", i % 2) for i in range(200))])
    options = {"label": "y", "classes": 2, "epsilon": 1.0, "id_column": "id", "ledger": tmp_path / "l", "budget": 1.0}
    release_file(path, tmp_path / "one.parquet", options | {"rows": Part(1, 2)})
    left = sorted({f"u{i}" for i in range(200)} - set(Release.load(tmp_path / "one.parquet").ids.tolist()))
    with pytest.raises(BudgetError, match="'labels'"):
        release(tmp_path / "l", left, "elsewhere", labeldp.RandomizedResponse.calibrated(epsilon=2.0, num_classes=2))
    release(
        tmp_path / "l", left, "elsewhere", budget=1.0
    )  # never released before: within both budgets, nobody is asked
    with pytest.raises(AlreadyReleasedError, match="'elsewhere'"):
        release_file(path, tmp_path / "two.parquet", options | {"rows": Part(2, 2)})


def test_gaussian_and_pure_caps_are_kept_apart_across_data_sets(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "march", budget=1.0)
    with pytest.raises(BudgetError, match=r"`budget=1, budget_gaussian=\(1\.?\S*, 1e-05\), raise_budget=True`"):
        release(path, range(10), "again", GAUSSIAN, again="charge", other_ids=ORIGINAL)
    release(
        path,
        range(10),
        "again",
        GAUSSIAN,
        "charge",
        budget=1.0,
        budget_gaussian=(1.01, 1e-5),
        raise_budget=True,
        other_ids=ORIGINAL,
    )
    stated = data_set(path, "march").publishable()
    assert stated["delta"] == 1e-5
    assert 1.99 < stated["epsilon"] < 2.02


# ── other people ──


def test_other_people_have_accounts_of_their_own_and_both_totals_are_told(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "clinic a", budget=1.0)
    header = release(path, range(10), "clinic b", budget=1.0, other_ids="b").header
    for name, group in (("clinic a", ""), ("clinic b", ", its ids being those of the group 'b'")):
        assert published(data_set(path, name)) == (
            f"every label has ε = 1 (pure label-DP){group}; if equal ids of all groups name the same people, ε = 2 (pure label-DP) so far"
        )
    assert header["budget"]["groups"] == ["b"]
    assert 1.99 < header["budget"]["publishable_if_same"]["epsilon"] <= 2
    # Whose are they, later on? Everybody's, unless it is said.
    with pytest.raises(BudgetError, match=r"'clinic a' and .*'clinic b'|'clinic b' and .*'clinic a'"):
        release(path, range(5, 12), "later", again="charge")
    release(path, range(5, 12), "later", again="charge", other_ids="b", budget=2.0, raise_budget=True)
    assert [data_set(path, name).caps.pure for name in ("clinic a", "clinic b", "later")] == [1.0, 2.0, 2.0]


def test_unnamed_later_files_are_charged_to_every_group(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "a", mechanism=HALF, budget=1.0)
    release(path, range(10), "b", mechanism=HALF, budget=1.0, other_ids="b")
    release(path, range(5, 12), "later", mechanism=HALF, budget=1.0, again="charge")
    assert data_set(path, "later").groups == (ORIGINAL, "b")
    assert all(data_set(path, name).spent().pure > 0.99 for name in ("a", "b", "later"))
    assert data_set(path, "a").spent_if_same().pure > 1.49


def test_a_data_set_stays_in_its_group(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "a")
    with pytest.raises(RefusedError, match="stays where it is"):
        release(path, range(10), "a", other_ids="b")
    with pytest.warns(UserWarning, match="alone"), pytest.raises(LabelDPError, match="rows that go by id"):
        ONE.release([0, 1], data_set="numbered", ledger=labeldp.Ledger(path, other_ids="b"))
    with pytest.raises(LabelDPError, match="the name of a group of ids"):
        release(path, range(10), "c", other_ids="")


def test_one_group_and_no_overlap_say_nothing_of_groups(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "a")
    release(path, range(20, 30), "b", other_ids="b")
    assert data_set(path, "a").spent_if_same() is None
    assert "group" not in published(data_set(path, "a"))


# ── protection ──


def test_ids_that_were_handed_out_unprotected_are_promised_nothing(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "toy", entropy=labeldp.SeededEntropy(0))
    with pytest.raises(RefusedError, match="3 of these ids were released without protection in data set 'toy'"):
        release(path, range(7, 20), "real")
    release(path, range(7, 20), "real", other_ids="people")


def test_rows_by_number_are_promised_under_their_name(tmp_path):
    with pytest.warns(UserWarning, match="by the name 'numbers' alone"):
        made = ONE.release([0, 1, 1], data_set="numbers", ledger=labeldp.Ledger(tmp_path / "l"))
    assert made.header["budget"]["of"] == "this name"
    assert published(data_set(tmp_path / "l", "numbers")) == "every label has ε = 1 (pure label-DP), under this name"


# ── written differently ──


def test_ids_are_the_same_however_they_are_written(tmp_path):
    path = tmp_path / "l"
    first = release(path, ["41", "42", "e\u0301"], "march")
    assert first.ids.tolist() == ["41", "42", "e\u0301"]  # what was written stays
    for text in ("00042", "42.0", " 42 ", "\u00e9"):
        with pytest.raises(AlreadyReleasedError, match="1 of these 2 ids"):
            release(path, [text, "other"], "april")
    assert first.positions([42, "0041", "\u00e9"]).tolist() == [1, 0, 2]


def test_two_ids_that_meet_are_refused_unless_they_are_taken_as_written(tmp_path):
    with pytest.raises(LabelDPError, match="rows 0 and 2 have the same id, written differently"):
        release(tmp_path / "l", ["007", "x", "7"], "agents")
    made = release(tmp_path / "l", ["007", "x", "7"], "agents", ids_as_written=True)
    assert made.header["ids"]["form"] == "as written"
    assert made.positions(["7", "007"]).tolist() == [2, 0]
    # Compared with a file in canonical form, they are the same again: nobody is sure that they are not.
    with pytest.raises(AlreadyReleasedError, match="1 of these 2 ids"):
        release(tmp_path / "l", [7, 8], "numbers")
    release(tmp_path / "l", ["0007", "8"], "more agents", ids_as_written=True)


# ── a ledger of before ──


@pytest.fixture
def older(tmp_path):
    shutil.copytree(OLDER, tmp_path / "older")
    return tmp_path / "older" / "labels.ledger"


def test_an_older_ledgers_broken_promises_are_told(older):
    facts = {one["name"]: one for one in statement(labeldp.Ledger(older))["data_sets"]}
    for name in ("march", "april"):
        assert 1.99 < facts[name]["publishable"]["epsilon"] <= 2
        assert "some labels have paid pure ε = 2" in facts[name]["text"]
    assert facts["padded"]["publishable"]["epsilon"] == 1
    with pytest.raises(VerificationError, match="but ids of it were released in other data sets too"):
        verify(labeldp.Ledger(older), [])


@pytest.mark.parametrize(
    ("written", "known"), [("00042", True), ("0043.0", True), (" x", True), ("x", True), ("5", True), ("005", True), ("7", False)]
)  # fmt: skip
def test_nobody_is_double_spent_by_an_upgrade(older, written, known):
    """Older entries hash what was written: compared are what is written now and its canonical form."""
    if not known:
        release(older, [written, "new"], "next")
        return
    with pytest.raises(AlreadyReleasedError, match="1 of these 2 ids"):
        release(older, [written, "new"], "next")


def test_the_same_again_is_the_same_after_an_upgrade(older):
    with pytest.warns(labeldp.errors.RepeatedReleaseWarning):
        again = ONE.release(
            np.zeros(5, int), data_set="march", ids=[1, 2, 3, 4, 5], ledger=labeldp.Ledger(older), label="y"
        )
    assert again.header["ledger"]["entry"] == 3
    padded = ["00041", "00042", "0043.0", "x"]
    with pytest.raises(AlreadyReleasedError, match="`ids_as_written=True`"):
        ONE.release(np.zeros(4, int), data_set="padded", ids=padded, ledger=labeldp.Ledger(older), label="y")
    with pytest.warns(labeldp.errors.RepeatedReleaseWarning):
        again = ONE.release(
            np.zeros(4, int),
            data_set="padded",
            ids=padded,
            ledger=labeldp.Ledger(older),
            label="y",
            ids_as_written=True,
        )
    assert again.header["ledger"]["entry"] == 13


# ── against a naive count ──

steps = st.lists(
    st.tuples(
        st.sets(st.integers(0, 9), min_size=1), st.sampled_from([0.5, 1.0]), st.sampled_from([None, None, "b"]), st.sampled_from([1.0, 2.0])
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_no_id_ever_pays_more_than_any_budget_that_holds_it(tmp_path_factory, wanted):
    """Data sets of random ids, groups and budgets: what is let through never breaks a promise, and is counted right."""
    path = tmp_path_factory.mktemp("ledger") / "l"
    paid, held = {}, {}  # what each id of each group has paid; the ids, groups and budget of each data set
    for number, (ids, epsilon, other, budget) in enumerate(wanted):
        mechanism = labeldp.RandomizedResponse.calibrated(epsilon=epsilon, num_classes=2)
        groups = [other] if other else sorted({ORIGINAL, *(g for _, gs, _ in held.values() for g in gs)})
        after = {(g, i): paid.get((g, i), 0) + epsilon for g in groups for i in ids}
        caps = [b for some, gs, b in held.values() for g in gs for i in some if (g, i) in after and after[g, i] > b]
        fits = not caps and max(after.values()) <= budget
        # Equal sets of ids are known as one data set already, whatever the budgets.
        if not fits or (other is None and any(ids == some for some, _, _ in held.values())):
            with pytest.raises(RefusedError):
                release(path, ids, f"d{number}", mechanism, again="charge", budget=budget, other_ids=other)
            continue
        release(path, ids, f"d{number}", mechanism, again="charge", budget=budget, other_ids=other)
        paid |= after
        held[f"d{number}"] = ids, groups, budget
    for name, (ids, groups, _) in held.items():
        most = max(paid[g, i] for g in groups for i in ids)
        assert data_set(path, name).spent().pure == pytest.approx(most, abs=1e-6)


def test_the_same_again_is_free_also_once_other_people_have_the_same_ids(tmp_path):
    path = tmp_path / "l"
    first = release(path, range(10), "a", budget=1.0)
    release(path, range(10), "b", budget=1.0, other_ids="b")
    with pytest.warns(labeldp.RepeatedReleaseWarning):
        again = release(path, range(10), "a", budget=1.0)
    assert again.checksum == first.checksum


def test_saying_other_ids_does_not_make_another_file_of_the_same_one(tmp_path, cli):
    """Known by its columns, it is not released again by id, whatever is said of its ids."""
    labels = tmp_path / "labels.csv"
    labels.write_text("uid,age,y\n" + "".join(f"u{i},{i % 7},{i % 2}\n" for i in range(100)))
    ledger = ("--ledger", tmp_path / "l")
    told = ("release", labels, "--label", "y", "--classes", "2", "--epsilon", "1", *ledger)
    assert cli(*told, "--out", tmp_path / "a.parquet")[0] == 0
    for group in ((), ("--other-ids", "original"), ("--other-ids", "x")):
        code, _, err = cli(*told, "--id", "uid", "--data-set", "two", *group, "--out", tmp_path / "b.parquet")
        assert code == 3
        assert "known to the ledger as data set 'labels'" in err


def test_unprotected_labels_of_other_groups_are_in_the_second_total(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "a", budget=1.0)
    release(path, range(10), "lab", other_ids="lab", entropy=labeldp.SeededEntropy(1))
    assert "name the same people, nothing" in published(data_set(path, "a"))
    later = release(path, range(20, 30), "b", budget=1.0)
    assert "nothing" not in published(data_set(path, "b"))
    assert later.header["budget"]["unprotected_if_same"] is None


def test_a_data_set_in_all_groups_has_a_second_total_too(tmp_path):
    path = tmp_path / "l"
    release(path, range(10), "a", budget=10.0)
    release(path, range(10), "b", budget=10.0, other_ids="x")
    release(path, range(11), "c", budget=2.0, again="charge")
    assert data_set(path, "c").spent().pure == pytest.approx(2, rel=1e-6)
    assert data_set(path, "c").spent_if_same().pure == pytest.approx(3, rel=1e-6)
    assert "the same people, ε = 3" in published(data_set(path, "c"))


def test_what_a_caller_does_to_a_book_changes_no_account(tmp_path):
    ledger = labeldp.Ledger(tmp_path / "l", budget=1.0)
    ids = [str(i) for i in range(10)]
    ONE.release(np.zeros(10, int), data_set="a", ids=ids, ledger=ledger)
    book = ledger.book()
    book.data_sets["a"].releases.clear()
    book.data_sets.pop("a")
    book.releases.clear()
    with pytest.raises(RefusedError):
        ONE.release(np.zeros(10, int), data_set="b", ids=ids, ledger=ledger)
