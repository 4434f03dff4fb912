"""Kubeconfigs: which cluster, and as whom."""

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from treadle.core.errors import InvalidInputError
from treadle.engines.clusters.kubernetes.access import Access, access
from treadle.engines.clusters.kubernetes.certificate import self_signed

CERTIFICATE = self_signed("server", ["127.0.0.1"])


def reached(folder: Path, user: dict[str, Any], context: str = "", **given: str) -> Access:
    path = folder / "config"
    authority = base64.b64encode(CERTIFICATE.pem).decode()
    cluster = {"server": "https://127.0.0.1:1/", "certificate-authority-data": authority}
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **given}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return access(context, {"KUBECONFIG": str(path)})


def test_the_current_context_is_used_and_its_namespace(tmp_path: Path):
    found = reached(tmp_path, {"token": "secret"}, namespace="team")
    assert (found.server, found.namespace) == ("https://127.0.0.1:1", "team")
    assert found.token(False) == "secret"
    assert not found.inside
    assert reached(tmp_path, {}).namespace == "treadle"
    assert not reached(tmp_path, {}).token(False)


def test_a_context_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path):
    with pytest.raises(InvalidInputError, match=r"'there'.*here"):
        reached(tmp_path, {}, "there")


def test_a_token_in_a_file_is_read_again_when_it_was_refused(tmp_path: Path):
    (tmp_path / "token").write_text("one\n")
    found = reached(tmp_path, {"tokenFile": "token"})
    assert found.token(False) == "one"
    (tmp_path / "token").write_text("two\n")
    assert found.token(False) == "one"
    assert found.token(True) == "two"


def test_a_helper_gives_tokens_until_they_run_out(tmp_path: Path):
    script = tmp_path / "helper.py"
    script.write_text(
        "import json, os, pathlib, sys\n"
        "count = pathlib.Path(sys.argv[1])\n"
        "said = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(number))\n"
        "until = os.environ['UNTIL']\n"
        "status = {'token': f'token {number}', 'expirationTimestamp': until}\n"
        "print(json.dumps({'kind': said['kind'], 'status': status}))\n"
    )

    def helped(until: str) -> Access:
        helper = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(script), str(tmp_path / "count")],
            "env": [{"name": "UNTIL", "value": until}],
        }
        return reached(tmp_path, {"exec": helper})

    lasting = helped("2999-01-01T00:00:00Z")
    assert [lasting.token(False), lasting.token(False), lasting.token(True)] == [
        "token 1",
        "token 1",
        "token 2",
    ]
    over = helped("2000-01-01T00:00:00Z")
    assert [over.token(False), over.token(False)] == ["token 3", "token 4"]


def test_a_helper_that_fails_is_one_sentence(tmp_path: Path):
    helper = {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}
    with pytest.raises(InvalidInputError, match="false"):
        reached(tmp_path, {"exec": helper}).token(False)


def test_a_client_certificate_is_loaded(tmp_path: Path):
    (tmp_path / "crt").write_bytes(CERTIFICATE.pem)
    (tmp_path / "key").write_bytes(CERTIFICATE.key)
    assert reached(tmp_path, {"client-certificate": "crt", "client-key": "key"}).trust


def test_passwords_are_refused(tmp_path: Path):
    with pytest.raises(InvalidInputError):
        reached(tmp_path, {"username": "me", "password": "x"})


@pytest.mark.parametrize("content", ["", "[]", "contexts: 1", "{", None])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, content: str | None):
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidInputError):
        access("", {"KUBECONFIG": str(path)})
