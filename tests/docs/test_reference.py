"""The references are what the code says, and guides and references name every command, option and public name."""

import inspect
import pkgutil
import re

import pytest
from tools.docs import commands, names
from tools.docs.__main__ import PAGES

import labeldp
from labeldp.errors import LabelDPError
from tests.docs.blocks import ROOT, blocks, pages, read

GENERATED = tuple(PAGES)
REFERENCES = tuple(page for page in PAGES if page.startswith("docs/reference/"))
GUIDES = "".join(read(page) for page in pages() if page not in REFERENCES)


@pytest.mark.parametrize("page", GENERATED)
def test_references_are_up_to_date(page):
    assert (ROOT / page).exists(), "run `make references`"
    assert read(page) == PAGES[page]().rstrip() + "\n", f"{page} is stale: run `make references`"


@pytest.mark.parametrize("command", list(commands.commands()), ids=lambda command: command.words)
def test_every_command_is_documented(command):
    """It says what it does, so does each option; the reference has them all; some guide shows the command."""
    reference = read("docs/reference/cli.md")
    assert command.paragraphs
    assert re.search(rf"^## {command.words}$", reference, re.MULTILINE)
    assert re.search(rf"\b{command.words}\b(?!-)", GUIDES), f"no guide shows `{command.words}`"
    section = reference.split(f"## {command.words}\n", 1)[1].split("\n## ", 1)[0]
    for parameter in command.parameters():
        assert parameter.help, f"{command.words} {parameter.name} has no help text"
        assert f"`{parameter.name}" in section


def test_what_a_base_class_has_is_shown_of_each_class():
    """By the name of the class that is called, also where the base declares it of whoever calls."""
    page = read("docs/reference/api.md")
    for kind in ("ModelChosen", "Moments", "NoisyConfusion", "Score"):
        section = page.split(f"### labeldp.statistics.{kind}\n", 1)[1].split("\n### ", 1)[0]
        assert f"- `{kind}.load(path: str | os.PathLike[str]) -> {kind}`" in section
        assert "- `.save(" in section


def test_the_walk_finds_every_command_that_the_help_shows(cli):
    """The generator reads signatures; what a user can call is what Typer made of them."""
    _, shown, _ = cli("--help")
    assert {command.words.split()[1] for command in commands.commands()} == _called(shown)
    for group in ("ledger", "canaries", "pate"):
        _, shown, _ = cli(group, "--help")
        assert {c.words.split()[2] for c in commands.commands() if c.words.startswith(f"labeldp {group} ")} == _called(
            shown
        )


def _called(help_text):
    return set(re.findall(r"^│ ([a-z][a-z-]*)  ", help_text, re.MULTILINE))


@pytest.mark.parametrize("words", ["labeldp train", "labeldp ledger verify", "labeldp pate run", "labeldp release"])
def test_options_are_those_of_the_help(cli, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    _, shown, _ = cli(*words.split()[1:], "--help")
    (command,) = (c for c in commands.commands() if c.words == words)
    options = {name for p in command.parameters() if p.option for name in re.findall(r"--[\w-]+", p.name)}
    assert options | {"--help"} == set(re.findall(r"^│[ *]+(--[\w-]+)", shown, re.MULTILINE))


@pytest.mark.parametrize("page", [page for page in pages() if page not in GENERATED])
def test_commands_in_pages_exist_with_their_options(page):
    """In sentences and in blocks that are not run, too."""
    options = {c.words: {flag for p in c.parameters() for flag in p.name.split(", ")} for c in commands.commands()}
    groups = {words.rpartition(" ")[0] for words in options}
    fences = [block.code for block in blocks(read(page)) if block.language == "bash"]
    texts = [*(code.replace("\\\n", " ") for code in fences), *re.findall(r"`([^`\n]+)`", read(page))]
    for line in (part for text in texts for part in re.split(r"\n|\|\|?|&&|;|#", text)):
        said = re.search(r"(?<![\w./-])labeldp((?: [a-z][a-z-]*)+)(.*)", line)
        if said is None:
            continue
        words = [f"labeldp{said[1]}"]
        while " " in words[-1] and words[-1] not in options:
            words.append(words[-1].rpartition(" ")[0])
        if words[-1] == "labeldp":
            assert any(one in groups for one in words[:-1]), f"there is no `{words[0]}`"
            continue
        assert set(re.findall(r"(?<!\S)--[a-z][\w-]*", said[2])) <= options[words[-1]] | {"--help"}, line


def test_exit_codes_are_those_of_the_errors():
    kinds = [LabelDPError, *_kinds(LabelDPError)]
    assert {kind.exit_code for kind in kinds} <= set(commands.EXIT_CODES)
    for kind in kinds:
        assert re.search(rf"^\| {kind.exit_code} \|.*`{kind.__name__}`", read("docs/reference/cli.md"), re.MULTILINE)


def _kinds(kind):
    return [
        found for one in kind.__subclasses__() if one.__module__ == "labeldp.errors" for found in (one, *_kinds(one))
    ]


def test_every_environment_variable_is_documented():
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert set(re.findall(r"(?<![A-Z_])LABELDP_[A-Z]+", source)) == set(commands.ENVIRONMENT)


def test_every_public_name_is_documented():
    """In the reference with a docstring, and in a guide by its own name; the README's names in docs/python.md."""
    reference = read("docs/reference/api.md")
    for name in names.names():
        assert f"\n### {name.path}\n" in reference
        assert names.documented(name.target), f"{name.path} has no docstring"
        assert re.search(rf"\b{name.path.rpartition('.')[2]}\b", GUIDES), f"no guide names {name.path}"
        if inspect.isclass(name.target):
            for method, _, _ in names.members(name.target):
                assert inspect.getdoc(getattr(name.target, method)), f"{name.path}.{method} has no docstring"
    for name in labeldp.__all__:
        assert re.search(rf"\b{name}\b", read("docs/python.md")), name


def test_names_in_guides_are_public():
    """Whatever a guide calls by its full path exists, and is in the reference or is a module of it."""
    public = {name.path for name in names.names()}
    for path in sorted(set(re.findall(r"\blabeldp(?:\.[a-z_]+)*\.(?:[A-Z]\w+|[a-z_]+)\b(?=\()", GUIDES))):
        assert pkgutil.resolve_name(path) is not None
        assert (
            any(path == one or path.startswith(f"{one}.") for one in public)
            or path.rpartition(".")[2] in labeldp.__all__
        ), path
