"""`treadle doctor`: check a state folder, a store and their bond; say what is wrong with them."""

import os
from pathlib import Path

import click

from treadle.cli.live.daemon_start import STORE_VARIABLE, state_folder
from treadle.cli.live.saved_options import recall
from treadle.cli.live.session import echo_json, json_option
from treadle.cli.show.wording import plain
from treadle.client.address import default_socket


@click.command()
@click.option("--state", type=Path, metavar="DIR", help="The state folder.")
@click.option("--store", metavar="URL", help="The store; default: that of the last treadle up.")
@click.option(
    "--bond",
    is_flag=True,
    help="Make folder and store belong together, whatever they belonged to before. Refused while "
    "jobs run that one of them would lose.",
)
@json_option
def doctor(state: Path | None, store: str | None, bond: bool, as_json: bool) -> int:
    """Check a state folder, a store and whether they belong together; the daemon may run or not."""
    # Only this command should pay for the database's imports.
    from treadle.cli.live.doctor_checks import Patient, examine, make_bond  # noqa: PLC0415
    from treadle.store.bond import default_store  # noqa: PLC0415

    socket = default_socket().absolute()
    folder = state_folder(state)
    url = store or os.environ.get(STORE_VARIABLE) or recall(folder).store or default_store(folder)
    patient = Patient(folder, url, socket)
    if bond:
        sentence = make_bond(patient)
        if not as_json:
            click.echo(plain(sentence))
    findings = list(examine(patient))
    ok = all(finding.ok for finding in findings)
    if as_json:
        echo_json({"ok": ok, "checks": [finding._asdict() for finding in findings]})
        return 0 if ok else 1
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        mark = "ok     " if finding.ok else "problem"
        click.echo(f"{mark}  {finding.check:{width}}  {plain(finding.text)}")
    return 0 if ok else 1
