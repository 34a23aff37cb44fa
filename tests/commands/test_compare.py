"""`labeldp compare`: what is refused, in a sentence, and that it locks nobody out."""

from labeldp.commands.compare import CompareOptions


def test_what_is_refused(tmp_path, cli):
    for arguments, message in (
        (("--dataset", "iris"), "unknown table 'iris'"),
        (("--dataset", "cancer", "--model", "forest"), "some of linear, mlp, lightgbm"),
        (("--dataset", "cancer", "--epsilon", "-1"), "epsilon must be a positive number"),
        (("--dataset", "cancer", "--threads", "0"), "--threads"),
        (("--dataset", "bank", "--data", tmp_path), "there is no"),
    ):
        code, _, err = cli("compare", *arguments, "--out", tmp_path / "out")
        assert (code, message in err) == (2, True), err


def test_the_usual_is_every_model_on_clean_labels(tmp_path):
    options = CompareOptions(dataset="cancer", out=tmp_path)
    assert (options.model, options.epsilon, options.seed) == ((), None, 0)
    assert CompareOptions(dataset="cancer", out=tmp_path, model="linear").model == ("linear",)
