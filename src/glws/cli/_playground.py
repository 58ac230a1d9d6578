"""`glws explain --serve`: a page on this machine that draws the constraint one types.

The server listens on the loopback address only. An address that holds a random token is asked for, and the page runs no
script, loads nothing, and sends its form only to itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from glws.cli._explain import explained
from glws.cli._explain_arguments import read_length
from glws.errors import GlwsError

HOST = "127.0.0.1"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
MOST_CHARACTERS = 4000
FIELDS = {
    "text": "Constraint",
    "classes": "Classes: a number, or names",
    "length": "Instances",
    "probs": "Predictions, such as 0.9,0.2,0.6,0.5 (optional)",
}
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>glws: constraints</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; color: #1f2328; }}
form {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); gap: .75rem 1rem; }}
label {{ display: grid; font-size: .9rem; }}
.wide {{ grid-column: 1 / -1; }}
input, button {{ font: inherit; padding: .4rem .6rem; border: 1px solid #767c85; border-radius: .4rem; }}
input {{ font-family: ui-monospace, monospace; }}
button {{ background: #1f5fbf; color: #fff; border-color: #1f5fbf; cursor: pointer; justify-self: start; }}
:focus-visible {{ outline: 3px solid #1f5fbf; outline-offset: 2px; }}
pre {{ background: #fdf0ee; border-left: 4px solid #b3261e; padding: .75rem; overflow-x: auto; }}
figure {{ margin: 1.5rem 0; overflow-x: auto; }}
svg {{ max-width: 100%; height: auto; min-width: 36rem; }}
</style></head><body>
<main><h1>What a constraint means</h1>
<form method="get">{fields}<button>Draw</button></form>
{result}</main></body></html>
"""


def serve_page(start: Mapping[str, str]) -> None:
    """Serve the page until Ctrl-C; `start` has the first values of the fields."""
    token = secrets.token_urlsafe(16)
    with server(token, start) as running:
        print(f"Open http://{HOST}:{running.server_port}/{token}/ in a browser; stop with Ctrl-C.", flush=True)
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            print("stopped")


def server(token: str, start: Mapping[str, str]) -> ThreadingHTTPServer:
    """A server on a free port; it answers requests for `/token/` that name this machine, and no others."""

    names: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version, timeout = "glws", "", 30

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            asked = secrets.compare_digest(address.path.encode(), f"/{token}/".encode())
            if not asked or self.headers.get("Host") not in names:
                self.answer(404, "not found\n", "text/plain")
                return
            found = {name: values[0] for name, values in parse_qs(address.query, keep_blank_values=True).items()}
            self.answer(200, page(found or start), "text/html")

        def answer(self, status: int, body: str, kind: str) -> None:
            data = body.encode()
            self.send_response(status)
            headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(data))}
            headers |= {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
            headers |= {"Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *values: object) -> None:
            """No lines for requests."""

    running = ThreadingHTTPServer((HOST, 0), Handler)
    names += [f"{name}:{running.server_port}" for name in (HOST, "localhost")]
    return running


def page(values: Mapping[str, str]) -> str:
    """The page for these values of the fields: the form, and the drawing or one line that says what is wrong."""
    fields = "".join(
        f"<label{' class=wide' if name in ('text', 'probs') else ''}>{escape(label)}"
        f'<input name="{name}" value="{escape(values.get(name, ""))}" autocomplete="off"></label>'
        for name, label in FIELDS.items()
    )
    return PAGE.format(fields=fields, result=_result({name: values.get(name, "").strip() for name in FIELDS}))


def _result(values: Mapping[str, str]) -> str:
    if max(map(len, values.values())) > MOST_CHARACTERS:
        return f"<pre>at most {MOST_CHARACTERS:,} characters</pre>"
    try:
        length = read_length(values["length"]) if values["length"] else None
        found = explained(values["text"], values["classes"], length, values["probs"] or None)
        return f"<figure>{found.svg()}</figure>"
    except GlwsError as error:
        return f"<pre>{escape(str(error))}</pre>"
