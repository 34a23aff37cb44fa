"""Nothing that a pickle names is ever run."""

import os
import pickle
import subprocess

import numpy as np
import pytest

from labeldp.data.official import load_pickle
from labeldp.errors import InputError
from tests.data.batches import _Python2, batch10

PIXELS = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
GOOD = batch10(PIXELS, [3, 7], [b"a.png", b"b.png"], b"a batch")


class Reduced:
    def __init__(self, *how):
        self.how = how

    def __reduce__(self):
        return self.how


def test_what_python_2_wrote():
    loaded = load_pickle(GOOD, "x")
    np.testing.assert_array_equal(loaded[b"data"], PIXELS)
    assert (loaded[b"labels"], loaded[b"filenames"]) == ([3, 7], [b"a.png", b"b.png"])


def test_fortrans_order():
    turned = GOOD.replace(PIXELS.tobytes(), PIXELS.tobytes("F")).replace(b"K\x00tb\x89T", b"K\x00tb\x88T")
    assert turned != GOOD
    np.testing.assert_array_equal(load_pickle(turned, "x")[b"data"], PIXELS)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "how",
    [
        lambda mark: (os.system, (f"touch {mark}",)),
        lambda mark: (subprocess.check_call, (["touch", str(mark)],)),
        lambda mark: (eval, (f"open({str(mark)!r}, 'w')",)),
        lambda mark: (open, (str(mark), "w")),
        lambda mark: (np.load, (str(mark),)),
    ],
)
def test_a_malicious_pickle_is_not_run(tmp_path, how, protocol):
    mark = tmp_path / "mark"
    evil = pickle.dumps({b"data": Reduced(*how(mark))}, protocol)
    with pytest.raises(InputError, match=r"^cifar/train is not read: it names '.*nothing of it was run"):
        load_pickle(evil, "cifar/train")
    assert not mark.exists()


def test_it_would_have_run(tmp_path):
    """The test above can fail."""
    pickle.loads(pickle.dumps(Reduced(os.system, (f"touch {tmp_path / 'mark'}",))))
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "name",
    ["numpy\nload", "numpy.core.multiarray\nscalar", "builtins\ngetattr", "copy_reg\n_reconstructor", "os\nsystem"],
)
def test_only_three_names_are_known(name):
    with pytest.raises(InputError, match="it names"):
        load_pickle(f"c{name}\n.".encode(), "x")


@pytest.mark.parametrize("kind", [b"O8", b"f8", b"i1"])
def test_other_arrays_are_refused(kind):
    out = _Python2()
    data = out.dictionary({b"data": lambda: out.array(PIXELS, kind)})
    with pytest.raises(InputError, match="something else"):
        load_pickle(data, "x")


def test_an_error_quotes_nothing_of_the_content():
    """An exception's context would show what the pickle holds."""
    for data in (b"", b"\x80\x02", pickle.dumps([87654321]), GOOD[:-900], GOOD.replace(b"M\x00\x0c", b"M\x01\x0c")):
        with pytest.raises(InputError, match="damaged, or holds something else") as caught:
            load_pickle(data, "x")
        assert caught.value.__context__ is None


def test_a_cut_anywhere_is_said():
    for length in range(0, len(GOOD), 97):
        with pytest.raises(InputError, match="x is not read"):
            load_pickle(GOOD[:length], "x")
