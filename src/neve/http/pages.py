"""`/docs`: the interface as one page that needs nothing from anywhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "pre{background:#f4f6f8;padding:.8rem;overflow:auto}summary{cursor:pointer;font-weight:600}"
    "details{border-top:1px solid #d8dee4;padding:.5rem 0}code{font:13px/1.45 ui-monospace,monospace}"
)


def docs_page(openapi: Mapping[str, Any]) -> str:
    """The document that `/openapi.json` holds, for people."""
    title = f"{openapi['info']['title']} {openapi['info']['version']}"
    schemas = openapi.get("components", {}).get("schemas", {})
    return "".join(
        [
            f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>",
            f'<h1>{escape(title)}</h1><p>For programs: <a href="/openapi.json">/openapi.json</a>.</p>',
            *_routes(openapi["paths"]),
            "<h2>Words</h2>",
            *(_folded(f"<code>{escape(name)}</code>", _shown(schema)) for name, schema in sorted(schemas.items())),
            "</html>",
        ]
    )


def _routes(paths: Mapping[str, Any]) -> Iterator[str]:
    for path, verbs in paths.items():
        for verb, route in verbs.items():
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {})
            parts = [f"<p>{escape(route.get('description', ''))}</p>"]
            for name, example in body.get("examples", {}).items():
                parts.append(f"<p>{escape(name)}</p>{_shown(example.get('value'))}")
            if schema := body.get("schema"):
                parts.append(f"<p>Body</p>{_shown(schema)}")
            head = f"<code>{verb.upper()} {escape(path)}</code> {escape(route.get('summary', ''))}"
            yield _folded(head, "".join(parts))


def _folded(head: str, inside: str) -> str:
    return f"<details><summary>{head}</summary>{inside}</details>"


def _shown(value: object) -> str:
    return f"<pre><code>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</code></pre>"
