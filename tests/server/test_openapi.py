"""The published document: complete, and the one that is checked in."""

import json
import os
from pathlib import Path

from tests.server.memory import MemoryService
from treadle.server.app import create_app, offered
from treadle.server.routes import PREFIX

CHECKED_IN = Path(__file__).parents[2] / "docs" / "openapi.json"


def document(tmp_path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(json.dumps(create_app(MemoryService(tmp_path)).openapi()))
    return found


def test_the_document_that_is_checked_in_is_the_apps(tmp_path):
    found = document(tmp_path)
    found["info"]["version"] = "current"  # type: ignore[index]
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("TREADLE_UPDATE"):
        CHECKED_IN.write_text(text)
    assert CHECKED_IN.read_text() == text, (
        "run it again with TREADLE_UPDATE=1 and look at the change"
    )


def test_every_operation_has_a_name_a_topic_a_summary_and_its_problems(tmp_path):
    paths = document(tmp_path)["paths"]
    assert isinstance(paths, dict)
    names = set()
    for method, path in offered():
        operation = paths[PREFIX + path][method.lower()]
        names.add(operation["operationId"])
        assert operation["tags"] in (["machine"], ["jobs"], ["history"], ["views"], ["people"])
        assert operation["summary"]
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"]
    assert len(names) == len(offered())
