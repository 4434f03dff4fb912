"""`treadle snapshot`, `journal` and `debug-bundle`: the daemon's state and history as files."""

import gzip
import io
import re
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from treadle.cli.live.session import echo_json, session
from treadle.cli.show.wording import plain
from treadle.core.errors import InvalidInputError
from treadle.core.wording import several
from treadle.files import writing

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


@click.command()
def snapshot() -> None:
    """Print the state that policies see, as JSON."""
    echo_json(session().client.snapshot())


@click.command()
@click.option(
    "-o", "--output", type=Path, metavar="FILE", help="File to write; standard output if omitted."
)
def journal(output: Path | None) -> None:
    """Export the journal, for `treadle analyze FILE`."""
    here = session()
    here.client.status()  # Without a daemon, fail here with one sentence.
    pieces = here.client.journal()
    if output is None:
        if sys.stdout.isatty():
            raise InvalidInputError(
                "the journal is long and not for reading; write it to a file with -o live.jsonl"
            )
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    size = _write(output, pieces)
    click.echo(f"wrote {output} ({size:,} bytes); treadle analyze {output} studies it")


@click.command("debug-bundle")
@click.option("-o", "--output", type=Path, default=Path("treadle-debug.tar.gz"), show_default=True)
def debug_bundle(output: Path) -> None:
    """Collect diagnostics into one file; it contains no secrets."""
    here = session()
    texts = here.client.debug()
    size = _write(output, [bundle(texts, at=here.now())])
    files = several(len(texts), "file")
    click.echo(f"wrote {output} ({files}, {size:,} bytes); review it before you share it")


def bundle(texts: Mapping[str, str], *, at: float) -> bytes:
    """A tar file of the texts; a name that could point outside the folder is refused."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=int(at)) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, text in sorted(texts.items()):
            if not _NAME.fullmatch(name):
                raise InvalidInputError(
                    f"the daemon sent a file named {plain(name)}, which is not a plain file name"
                )
            content = text.encode(errors="replace")
            entry = tarfile.TarInfo(f"treadle-debug/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(at), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _write(path: Path, pieces: Iterable[bytes]) -> int:
    """Leave a whole file, readable by its owner alone, or none."""
    try:
        with writing(path, mode=0o600) as file:
            return sum(file.write(piece) for piece in pieces)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}") from None
