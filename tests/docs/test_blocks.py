"""Every bash and Python block of the README and of docs/ is run, as a reader would: one page, one folder, in order."""

import pytest

from labeldp.data.download import data_folder
from tests.docs.blocks import RUN, SHOWN, blocks, commands_outside_blocks, nursery, pages, read, type_in


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    with nursery(tmp_path_factory.mktemp("nursery")) as script:
        yield script


@pytest.mark.parametrize("page", [page for page in pages() if any(block.runs for block in blocks(read(page)))])
def test_every_block_runs(page, tmp_path, reader):
    done = type_in(page, tmp_path, reader)
    assert done.returncode == 0, f"{page}\n{done.stdout[-6000:]}"


@pytest.mark.parametrize("page", pages())
def test_nothing_escapes_being_run(page):
    """A block of a language that is neither run nor only shown, a mark without a reason, or a command in indented code."""
    for block in blocks(read(page)):
        assert block.language in RUN + SHOWN, f"line {block.line}: {block.language!r}; commands are bash or python"
        if block.not_run is not None:
            assert block.language in RUN, f"line {block.line}: such a block is not run anyway"
            assert len(block.not_run.split()) >= 2, f"line {block.line}: <!-- not run: why -->"
    assert not commands_outside_blocks(read(page))


@pytest.mark.parametrize("page", [page for page in pages() if any(block.needs for block in blocks(read(page)))])
def test_what_blocks_need_is_here(page):
    """Else they were not run, which shows as a skip."""
    lacking = sorted({file for block in blocks(read(page)) for file in block.lacks()})
    if lacking:
        pytest.skip(f"{', '.join(lacking)}: not in {data_folder()} ($LABELDP_DATA)")


def test_a_block_that_needs_a_file_runs_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path))
    (block,) = blocks("a\n\n<!-- needs: one.gz two.gz -->\n```bash\nls\n```\n")
    (tmp_path / "one.gz").touch()
    assert (block.needs, block.lacks(), block.runs) == (("one.gz", "two.gz"), ["two.gz"], False)
    (tmp_path / "two.gz").touch()
    assert block.runs


def test_blocks_are_found_and_told_apart():
    page = "a\n\n```bash\nls\n```\n\n<!-- not run: takes hours -->\n```python\nx = 1\n```\n"
    page += "- b\n\n  ```bash\n  pwd\n  ```\n\n<!-- not run -->\n\n```bash\n```\n"
    found = blocks(page)
    assert [(block.line, block.language, block.code, block.not_run) for block in found] == [
        (3, "bash", "ls\n", None),
        (8, "python", "x = 1\n", "takes hours"),
        (13, "bash", "pwd\n", None),
        (19, "bash", "", ""),
    ]
    assert commands_outside_blocks("x\n\n    labeldp plan --classes 2\n\n```bash\n    labeldp train\n```\n") == [
        "labeldp"
    ]


def test_a_reader_keeps_folder_variables_and_names(tmp_path, monkeypatch, reader):
    """And stops at the first block that fails, in whatever language."""
    page = "```bash\nmkdir a; cd a; WORD=said; labeldp --version > v\n```\n```python\nx = open('v').read()\n```\n"
    page += "```bash\necho $WORD; pwd\n```\n```python\nprint(x)\n```\n"
    page += "```bash\nlabeldp plan --epsilon 1; echo never\n```\n```bash\necho after\n```\n"
    monkeypatch.setattr("tests.docs.blocks.read", lambda _: page)
    done = type_in("any", tmp_path, reader)
    assert done.returncode == 1
    assert f"said\n{tmp_path}/a\n" in done.stdout
    assert "labeldp 0" in done.stdout
    assert "exit code 2" in done.stdout
    assert "never\n" not in done.stdout.replace("echo never\n", "")
    assert "after" not in done.stdout
