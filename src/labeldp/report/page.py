"""One page, one file: style and script are in it, and its own security policy lets it fetch nothing."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from labeldp.audit.result import percent
from labeldp.report.reading import up_to
from labeldp.wording import downward, upward

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def render(template: str, **content: Any) -> str:
    """A template of this package, filled in; every text is escaped, since a run may come from somebody else."""
    environment = Environment(
        loader=PackageLoader("labeldp.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "json": inline_json,
        "upward": upward,
        "downward": downward,
        "up_to": up_to,
        "percent": percent,
    }
    return environment.get_template(template).render(policy=POLICY, asset=asset, **content)


def asset(name: str) -> Markup:
    """A style sheet or a script of this package, to stand within the page."""
    return Markup((files("labeldp.report") / "templates" / name).read_text(encoding="utf-8"))


def inline_json(data: Any) -> Markup:
    """JSON within a script element, which no text in it can end."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
