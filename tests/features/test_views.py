"""Random views: crops in changed light, drawn from a generator."""

from __future__ import annotations

import torch

from labeldp.features.views import random_views, view_size


def test_views_are_smaller_and_differ() -> None:
    x = torch.rand(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    views = random_views(x, 4, torch.Generator().manual_seed(1))
    assert views.shape == (20, 3, 24, 24)
    assert not torch.allclose(views[:5], views[5:10])
    torch.testing.assert_close(views, random_views(x, 4, torch.Generator().manual_seed(1)))


def test_a_view_is_three_quarters_of_its_image() -> None:
    assert view_size((32, 20)) == (24, 15)
    assert random_views(torch.rand(2, 1, 32, 20), 3, torch.Generator().manual_seed(0)).shape == (6, 1, 24, 15)
