import pytest

from labeldp import Ledger


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "l.ledger")
