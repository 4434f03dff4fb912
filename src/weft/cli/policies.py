"""`weft policies`: every policy with one line."""

import json
from inspect import Parameter

import click

from weft.core.errors import PolicyError
from weft.policies import registry


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def policies(as_json: bool) -> None:
    """List the policies, and the parameters each takes as NAME?parameter=value."""
    rows: list[tuple[str, str, dict[str, str]]] = []
    for name in registry.names():
        try:
            known = registry.parameters(registry.factory(name))
            rows.append((name, registry.summary(name), {k: _text(p) for k, p in known.items()}))
        except PolicyError as error:
            rows.append((name, f"({error})", {}))
    if as_json:
        keys = ("name", "summary", "parameters")
        click.echo(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=1))
        return
    width = max(len(name) for name, _, _ in rows)
    for name, line, parameters in rows:
        click.echo(f"{name:{width}}  {line}")
        if parameters:
            defaults = "&".join(f"{key}={value}" for key, value in parameters.items())
            click.echo(f"{'':{width}}  {name}?{defaults}")


def _text(parameter: Parameter) -> str:
    """A default as a user would write it."""
    default = parameter.default
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, tuple):
        return ":".join(f"{part:g}" for part in default)
    return f"{default:g}" if isinstance(default, float) else str(default)
