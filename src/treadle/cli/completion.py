"""`treadle completion`: the completion script for a shell."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script: `eval "$(treadle completion bash)"`."""
    from treadle.cli.main import cli  # noqa: PLC0415

    kind = get_completion_class(shell)
    assert kind is not None, "click supports the three shells on offer"
    click.echo(kind(cli, {}, "treadle", "_TREADLE_COMPLETE").source())
