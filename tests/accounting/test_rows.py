import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.accounting import rows as rows_module
from labeldp.accounting.cost import Cost
from labeldp.accounting.rows import RowIds, RowNumbers, heaviest, overlap, rows_from_json
from labeldp.errors import LedgerError

spans = st.tuples(st.integers(0, 30), st.integers(1, 30)).map(lambda t: (t[0], t[0] + t[1]))
releases = st.lists(st.tuples(spans, st.sampled_from([0.5, 1.0, 2.0])), max_size=6)


def most_of_any_row(wanted, earlier):
    """Row by row, as a child would."""
    return max((sum(cost for covered, cost in earlier if row in covered) for row in wanted), default=0.0)


@given(spans, releases)
def test_ranges_add_where_they_overlap(span, earlier):
    ours = heaviest(RowNumbers(*span), [(RowNumbers(*s), Cost(pure=c)) for s, c in earlier])
    assert ours.pure == most_of_any_row(range(*span), [(range(*s), c) for s, c in earlier])


def stored(folder, members):
    data = np.sort(np.array(sorted(members), dtype="<u8") * np.uint64(2**58 + 12345))
    digest = hashlib.sha256(data.tobytes()).hexdigest()[:32]
    data.tofile(folder / f"ids-{digest}.u64")
    return RowIds(len(data), digest, folder)


sets = st.sets(st.integers(0, 20), min_size=1)


@given(sets, st.lists(st.tuples(sets, st.sampled_from([0.5, 1.0, 2.0])), max_size=4), st.integers(1, 5))
def test_id_sets_add_where_they_overlap(tmp_path_factory, wanted, earlier, block):
    folder = tmp_path_factory.mktemp("ids")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "_BLOCK", block)
        ours = heaviest(stored(folder, wanted), [(stored(folder, s), Cost(pure=c)) for s, c in earlier])
    assert ours.pure == most_of_any_row(wanted, earlier)


def test_overlap():
    assert overlap(RowNumbers(0, 10), RowNumbers(9, 12))
    assert not overlap(RowNumbers(0, 10), RowNumbers(10, 12))


def test_every_number_is_tracked_separately():
    earlier = [(RowNumbers(0, 5), Cost(pure=1.0)), (RowNumbers(5, 9), Cost(gaussian=2.0))]
    assert heaviest(RowNumbers(0, 9), earlier) == Cost(pure=1.0, gaussian=2.0)


def test_json_round_trip(tmp_path):
    for rows in (RowNumbers(3, 9), RowIds(2, "ab", tmp_path)):
        assert rows_from_json(rows.to_json(), tmp_path) == rows


def test_a_missing_or_cut_file_of_ids_is_said(tmp_path):
    rows = stored(tmp_path, {1, 2, 3})
    path = tmp_path / f"ids-{rows.digest}.u64"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(LedgerError, match="altered"):
        rows.hashes()
    path.unlink()
    with pytest.raises(LedgerError, match="missing"):
        rows.hashes()
