"""The page's files over real HTTP: what is served, how it is kept, and that nothing else is."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import httpx2
import pytest

from tests.server.running import Running, running
from treadle.server.page_files import CONTENT_TYPES, page_files

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as found:
        yield found


@pytest.fixture(scope="module")
def http(server: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, timeout=10, trust_env=False) as found:
        yield found


def test_every_file_is_served_with_its_type_and_the_policy_of_the_page(http: httpx2.Client):
    found = page_files()
    assert "index.html" in found
    for path, file in found.items():
        answer = http.get(f"/static/{path}")
        assert answer.status_code == 200
        assert answer.content == file.content
        assert answer.headers["content-type"] == CONTENT_TYPES[path.rpartition(".")[2]], path
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-cache"
        assert len(answer.headers.get_list("content-security-policy")) == 1
    assert http.get("/").content == found["index.html"].content


def test_a_browser_that_has_the_file_is_told_so(http: httpx2.Client):
    tag = http.get("/").headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = http.get("/", headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert http.get("/", headers={"If-None-Match": '"other"'}).status_code == 200


def test_head_answers_the_head_and_other_methods_nothing(http: httpx2.Client):
    head = http.head("/")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(http.get("/").content)
    for path in ("/", "/static/index.html"):
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            assert http.request(method, path).status_code == 405
        assert http.post(path, json={}).status_code == 401  # no stranger's body is read


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static",
        "/static/nope.js",
        "/static/../app.py",
        "/static/../../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/..%5capp.py",
        "/static/%252e%252e/app.py",
        "/static//etc/passwd",
        "/static/vendor/../../app.py",
        "/static/index.html/",
        "/static/index.html%00.js",
        "/index.html",
        "/app.py",
    ],
)
def test_nothing_else_can_be_read(server: Running, path: str):
    host, _, port = server.url.partition("//")[2].partition(":")
    status, body = raw(host, int(port), path)
    assert status in {400, 404}, path
    assert b"import" not in body
    assert b"root:" not in body


def raw(host: str, port: int, path: str) -> tuple[int, bytes]:
    """The answer to a path as it is written; clients tidy dots away before they send it."""
    import http.client

    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "forged",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_forged_headers_are_refused_on_the_page_too(http: httpx2.Client, forged: dict[str, str]):
    for path in ("/", "/static/index.html"):
        assert http.get(path, headers=forged).status_code == 403


def test_the_folder_has_only_files_that_are_served():
    folder = Path(str(files("treadle.server") / "static"))
    on_disk = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert on_disk == set(page_files())
    assert {path.rpartition(".")[2] for path in on_disk} <= CONTENT_TYPES.keys()
