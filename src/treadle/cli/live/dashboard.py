"""`treadle dashboard`: open the web page in a browser, logged in.

A browser's command line can be read by every user of the machine, so the link is not put there:
the browser opens a file that only this user can read, and that leads to the link.
"""

import html
import os
import webbrowser
from pathlib import Path

import click

from treadle.cli.live.session import echo_json, json_option, note, session
from treadle.cli.show.wording import plain
from treadle.client.contexts import contexts_file

FILE = "dashboard.html"


@click.command()
@click.option("--no-open", is_flag=True, help="Print the link and open no browser.")
@json_option
def dashboard(no_open: bool, as_json: bool) -> None:
    """Open the web page, logged in as you. The link works once, within a minute."""
    made = session().client.session_link()
    if as_json:
        echo_json(made)
        return
    click.echo(plain(made.url))
    if no_open:
        note("the link works once, within a minute")
    elif not webbrowser.open(_leading_to(made.url).as_uri()):
        note("no browser was found; open the link yourself: it works once, within a minute")


def _leading_to(url: str) -> Path:
    """A page for this user alone that goes on to the link."""
    path = contexts_file().with_name(FILE)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        there = html.escape(url)
        file.write(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={there}">'
            f'<a href="{there}">Treadle</a>\n'
        )
    return path
