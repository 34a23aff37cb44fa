"""Recipes of teachers and students."""

from labeldp.pate.presets import recipe_for


def test_fixmatchs_recipe_for_small_images_and_for_tables():
    import numpy as np

    images = np.zeros((2, 1, 28, 28), np.uint8)
    paper, short = (recipe_for("fast", images, 10, 3, 1, paper=paper) for paper in (True, False))
    assert (paper.epochs, paper.seed, paper.unlabelled, paper.cutout, paper.learning_rate) == (3, 1, 7, 14, 0.03)
    assert (short.epochs, short.seed, short.unlabelled, short.cutout) == (3, 1, 3, 14)
    table = recipe_for("mlp", np.zeros((2, 5), np.float32), 10, None, 0)
    assert (table.randaugment, table.cutout) == (0, 0)
