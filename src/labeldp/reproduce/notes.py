"""What must be said beside a table, at each scale, so that nobody takes our numbers for something that they are not."""

from __future__ import annotations

READING = (
    "Accuracy is on the public test set. The certificate is proven, for neighbours that differ in one label. Measured are "
    "lower bounds, each at 95%, from planted labels (Steinke et al. 2023), by who sees the model's probabilities and by who sees "
    "the release; of several seeds, from the lowest to the highest."
)
INTERVAL = (
    "ε_m, the paper's interval, is its memorization attack with its own interval, for comparing with its columns; it is "
    "no proven bound. It is taken over those of our canaries whose planted label happens to be wrong (so many are in "
    "brackets): candidates are drawn without looking at the truth, so given that it is wrong, a label is uniform among "
    "the wrong ones, as the paper plants it. It uses true labels of a public benchmark."
)
SCALE_NOTES = {
    "smoke": (
        "Scale smoke: scikit-learn's digits and an MLP, one small run each. It shows that everything works. It says "
        "nothing about the paper, whose numbers beside it are of CIFAR and of large ResNets."
    ),
    "cpu": (
        "Scale cpu: the small `fast` model, 8 epochs, about 6e13 FLOP a cell; the paper's ALIBI runs take about 5e16. A "
        "tenth of the rows is held out. Our accuracies are those of a thousandth of the compute, and are to be compared "
        "with each other."
    ),
    "paper": (
        "Scale paper: the paper's models (Wide-ResNet-28-4 and 28-8, which its text calls Wide-ResNet18), epochs and "
        "hyper-parameters, trained on all rows. We report the last epoch; the paper's code picks the best checkpoint by "
        "test accuracy."
    ),
}
ALIBI_NOTES = {
    "smoke": "Canaries are 4% of the digits, which lowers accuracy.",
    "cpu": "500 canaries of ten candidates are planted in each cell, 1% of the rows.",
    "paper": (
        "1,000 canaries are planted in each training, as in the paper. The learning rates of CIFAR-100's two best rows "
        "are ten times those printed: they are those of a table that is commented out in the paper's source (presets "
        "`…-printed` have the printed ones)."
    ),
}
PATE_NOTES = {
    "smoke": (
        "Linear teachers stand in for FixMatch, and few of them; noise is such that the ε that may be published, that of "
        "the caps at δ = 1e-5, is the one that the paper states for the row."
    ),
    "cpu": (
        "PATE's rows are linear teachers on features that were learned from the images alone (contrastively), not "
        "FixMatch; noise is such that the ε that may be published, that of the caps at δ = 1e-5, is the one that the "
        "paper states for the row. What learning the features takes is not in the FLOP."
    ),
    "paper": (
        "PATE-FM's certificate is the caps' ε at δ = 1e-5, which may be published whatever the votes were; we allow twice "
        "as many questions as answers. The paper's ε depends on the votes and was not sanitised. Three students of one "
        "ensemble; ± is over seeds, each of which is an ensemble."
    ),
}
