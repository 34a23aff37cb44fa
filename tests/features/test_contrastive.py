"""Contrastive features, on tiny data: the loss is the equation's, it falls, and an interrupted run goes on exactly."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from labeldp.errors import InputError
from labeldp.features.contrastive import contrastive_loss, learn_contrastive


@pytest.fixture(scope="module")
def images() -> npt.NDArray[np.uint8]:
    """Stripes of four directions, some noise."""
    generator = np.random.default_rng(0)
    down, right = np.mgrid[:16, :16]
    waves = [np.sin(down), np.sin(right), np.sin(down + right), np.sin(down - right)]
    drawn = np.stack([waves[i % 4] for i in range(128)])[:, None] * 80 + 128 + generator.normal(0, 10, (128, 3, 16, 16))
    return drawn.clip(0, 255).astype(np.uint8)


def test_the_loss_is_the_equation() -> None:
    z = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    unit = (z / z.norm(dim=-1, keepdim=True)).tolist()

    def similar(a: list[float], b: list[float]) -> float:
        return sum(p * q for p, q in zip(a, b, strict=True)) / 0.2

    total = 0.0
    for view in range(3):
        for image in range(4):
            own = unit[view][image]
            together = [similar(own, unit[v][image]) for v in range(3) if v != view]
            apart = [math.exp(similar(own, unit[v][i])) for v in range(3) for i in range(4) if i != image]
            total += -sum(together) / 2 + math.log(sum(apart))
    assert float(contrastive_loss(z)) == pytest.approx(total / 12, rel=1e-5)


def test_the_loss_falls_and_a_row_depends_on_its_image_only(images: npt.NDArray[np.uint8]) -> None:
    learned = learn_contrastive(images, epochs=4, batch=32, learning_rate=0.1)
    assert learned.losses[-1] < learned.losses[0]
    assert learned.flop > 0
    features = learned.transform(images)
    assert features.shape == (128, 128)
    np.testing.assert_allclose(learned.transform(images, batch=50), features, atol=1e-4)


def test_an_interrupted_run_goes_on_exactly(images: npt.NDArray[np.uint8], tmp_path: Path) -> None:
    settings = {"epochs": 2, "batch": 32, "views": 2, "learning_rate": 0.1}
    whole = learn_contrastive(images, **settings)  # type: ignore[arg-type]

    def stop(epoch: int, loss: float) -> None:
        if epoch == 2:
            raise KeyboardInterrupt

    path = tmp_path / "c.safetensors"
    with pytest.raises(KeyboardInterrupt):
        learn_contrastive(images, **settings, checkpoint=path, on_epoch=stop)  # type: ignore[arg-type]
    again = learn_contrastive(images, **settings, checkpoint=path)  # type: ignore[arg-type]
    assert (again.losses, again.flop) == (whole.losses, whole.flop)
    np.testing.assert_array_equal(again.transform(images), whole.transform(images))
    with pytest.raises(InputError, match=r"begun with other settings or images \(seed\)"):
        learn_contrastive(images, **settings, seed=1, checkpoint=path)  # type: ignore[arg-type]
    path.write_bytes(b"something else")
    with pytest.raises(InputError, match="not a checkpoint of contrastive learning"):
        learn_contrastive(images, **settings, checkpoint=path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((10, 1, 8, 8), {}, "16×16 pixels or more; these are 8×8"),
        ((10, 1, 16, 16), {"views": 1}, "two views"),
        ((1, 1, 16, 16), {}, "two images"),
    ],
)
def test_what_cannot_be_contrasted_is_said(shape: tuple[int, ...], options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        learn_contrastive(np.zeros(shape, np.uint8), **options)  # type: ignore[arg-type]
