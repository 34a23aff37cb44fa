"""Numbers that a page states in a sentence are those that the code computes."""

import re

from labeldp import Laplace, SubsetSelection
from tests.docs.blocks import read


def test_the_readmes_claim_is_what_the_code_computes():
    (claimed,) = re.findall(r"k-subset selection tells a learner (\d+)% more", read("README.md"))
    subset = SubsetSelection.calibrated(epsilon=1.0, num_classes=10).information()
    laplace = Laplace.calibrated(epsilon=1.0, num_classes=10).information()
    assert int(claimed) == round(100 * (subset / laplace - 1))
