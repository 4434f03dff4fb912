"""Which state folder each socket's last daemon used, so that the next one goes on there.

After `treadle up --state DIR` and a crash, a plain `treadle up` would otherwise open the default
folder, new and empty, on the same socket, and the jobs of DIR would seem to be gone.
"""

import json
from contextlib import suppress
from pathlib import Path

import msgspec

from treadle.cli.live.saved_options import own_content
from treadle.cli.live.session import note
from treadle.cli.show.wording import plain
from treadle.files import replace

FILE = "sockets.json"  # in the default state folder, since those of sockets do not survive a boot
SOCKETS_MAX = 64


def remember_state(home: Path, socket: Path, folder: Path) -> None:
    """The daemon on this socket uses that folder; a failure is only noted, since the daemon runs.

    home: the default state folder, which need not be remembered.
    """
    known = _known(home)
    before = known.pop(str(socket), None)
    if folder != home:
        known[str(socket)] = str(folder)
    if before == known.get(str(socket)):
        return
    newest = dict(list(known.items())[-SOCKETS_MAX:])
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = json.dumps(newest, indent=1) + "\n"
        replace(home / FILE, content.encode(), mode=0o600, sync=True)
    except OSError as error:
        note(f"the state folder could not be saved for the next start: {error.strerror or error}")


def last_state(home: Path, socket: Path) -> Path | None:
    """The folder of the last daemon on this socket; None if it was the default one, or is gone."""
    last = _known(home).get(str(socket))
    return Path(last) if last is not None and Path(last).is_dir() else None


def note_last_state(folder: Path | None) -> None:
    """Say that a folder was chosen that the user did not name."""
    if folder is not None:
        note(
            f"using the state folder of the last treadle up on this socket: {plain(str(folder))} "
            "(--state DIR chooses another)"
        )


def _known(home: Path) -> dict[str, str]:
    """Folders by socket; none if the file is not there, damaged, or another user's."""
    with suppress(OSError, msgspec.MsgspecError):
        if content := own_content(home / FILE):
            return msgspec.json.decode(content, type=dict[str, str])
    return {}
