"""The site is looked at in the browser that pages are."""

from tests.report.conftest import browser as browser
from tests.report.conftest import visit as visit
