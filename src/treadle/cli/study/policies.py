"""`treadle policies`: list policies and wrappers with their parameters."""

import json
from collections.abc import Iterable

import click

from treadle.core.errors import PolicyError
from treadle.policies import registry
from treadle.wire.parameters import default_text, parameters

Row = tuple[str, str, dict[str, str]]  # name, one line, parameters


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def policies(as_json: bool) -> None:
    """List the policies and their parameters (NAME?parameter=value).

    Wrappers can be added to any policy: POLICY+WRAPPER?parameter=value+WRAPPER.
    """
    alone = _rows(registry.POLICY)
    wrappers = _rows(registry.WRAPPER)
    if as_json:
        listed = [("policy", row) for row in alone] + [("wrapper", row) for row in wrappers]
        keys = ("name", "summary", "parameters")
        found = [{"kind": kind, **dict(zip(keys, row, strict=True))} for kind, row in listed]
        click.echo(json.dumps(found, indent=1))
        return
    width = max(len(name) for name, _, _ in (*alone, *wrappers))
    _print(alone, "", width)
    click.echo("\nwrappers, which can be added to any policy: POLICY+WRAPPER+WRAPPER")
    _print(wrappers, "+", width)


def _rows(kind: registry.Kind) -> list[Row]:
    rows: list[Row] = []
    for name in registry.names(kind):
        try:
            make = registry.factory(name, kind)
            known = {key: default_text(value) for key, value in parameters(make).items()}
            rows.append((name, registry.first_line(make), known))
        except PolicyError as error:
            rows.append((name, f"({error})", {}))
    return rows


def _print(rows: Iterable[Row], sign: str, width: int) -> None:
    for name, line, own in rows:
        click.echo(f"{name:{width}}  {line}")
        if own:
            defaults = "&".join(f"{key}={value}" for key, value in own.items())
            click.echo(f"{'':{width}}  {sign}{name}?{defaults}")
