"""The web page's files, read once: what is not among them cannot be asked for.

The daemon keeps them in memory, so that a page and its modules are of one version, also while the
package is being upgraded. A browser asks again every time, and is told that nothing has changed.
"""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from treadle.wire.problems import NotFoundError

INDEX = "index.html"
CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",  # licences
    "md": "text/plain; charset=utf-8",
}
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class PageFile(NamedTuple):
    content: bytes
    content_type: str
    tag: str


def page_files() -> dict[str, PageFile]:
    """All files of the page, by their path under `static`."""
    return dict(_found(files("treadle.server") / "static", ""))


def _found(folder: Traversable, before: str) -> list[tuple[str, PageFile]]:
    found: list[tuple[str, PageFile]] = []
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        path = f"{before}{each.name}"
        kind = CONTENT_TYPES.get(path.rpartition(".")[2].lower(), "text/plain; charset=utf-8")
        if each.is_dir():
            found += _found(each, f"{path}/")
        elif not each.name.startswith("."):
            content = each.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found.append((path, PageFile(content, kind, tag)))
    return found


def page_routes(found: dict[str, PageFile]) -> list[Route]:
    """`/` and everything under `/static/`; none of it needs a token, and none of it is data."""

    async def index(request: Request) -> Response:
        return _answer(request, found[INDEX])

    async def file(request: Request) -> Response:
        path = request.path_params["path"]
        if path not in found:
            raise NotFoundError(f"there is no {request.method} {request.url.path[:200]}")
        return _answer(request, found[path])

    return [Route("/", index, methods=["GET"]), Route("/static/{path:path}", file, methods=["GET"])]


def _answer(request: Request, file: PageFile) -> Response:
    headers = {
        "Content-Type": file.content_type,
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-cache",
        "ETag": file.tag,
    }
    known = [tag.strip().removeprefix("W/") for tag in request.headers.getlist("if-none-match")]
    known = [tag.strip().removeprefix("W/") for tags in known for tag in tags.split(",")]
    if file.tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers)
