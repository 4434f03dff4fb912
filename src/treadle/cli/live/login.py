"""`treadle login` and `treadle logout`: servers on other machines.

The token is asked for, never an argument: all users can read a command line. A certificate that
this machine does not trust needs an explicit yes, or the fingerprint that the server's owner gave.
"""

import getpass
import sys
from urllib.parse import urlsplit

import click

from treadle.cli.live.session import echo_json, json_option, note
from treadle.cli.show.wording import plain
from treadle.client.address import Address, read_address
from treadle.client.contexts import ServerContext, read_contexts, write_contexts
from treadle.core.errors import InvalidInputError
from treadle.wire.fingerprint import read_fingerprint
from treadle.wire.machine import Status

TOKEN_CHARACTERS_MAX = 4096


@click.command()
@click.argument("url")
@click.option("--name", default="", help="What to call the server; by default its host name.")
@click.option(
    "--fingerprint",
    default="",
    metavar="SHA256:...",
    help="The server's key, as `treadle up` printed it there.",
)
@json_option
def login(url: str, name: str, fingerprint: str, as_json: bool) -> None:
    """Log in to the server at URL; later commands go to it. The token is asked for, or read from
    standard input."""
    address = read_address(url)
    if not address.url:
        raise InvalidInputError(
            f"{url} is a socket of this machine, where the kernel says who you are; set "
            f"TREADLE_SOCKET={address.socket} to use it"
        )
    name = name or urlsplit(address.url).hostname or ""
    address = _trusted(address, read_fingerprint(fingerprint) if fingerprint else "")
    token = _token()
    found = _status(address, token)
    kept = read_contexts()
    one = ServerContext(url=address.url, token=token, fingerprint=address.fingerprint)
    write_contexts(kept.using(name, one))
    if as_json:
        echo_json({"name": name, "url": address.url, "fingerprint": address.fingerprint})
        return
    click.echo(
        f"logged in to {plain(name)} ({plain(address.url)}, treadle {plain(found.version)}); "
        "treadle logout goes back to this machine"
    )


@click.command()
@click.argument("name", default="")
@json_option
def logout(name: str, as_json: bool) -> None:
    """Forget the token and the key of the server NAME, by default the present one. The token stays
    valid until it expires or is revoked."""
    kept = read_contexts()
    name = name or kept.current
    if name not in kept.known:
        known = ", ".join(kept.known) or "none"
        said = f"there is no login {plain(name)!r}" if name else "you are not logged in anywhere"
        raise InvalidInputError(f"{said} (known: {plain(known)})")
    left = kept.removing(name)
    write_contexts(left)
    if as_json:
        echo_json({"name": name, "current": left.current})
    else:
        click.echo(f"logged out of {plain(name)}")


def _trusted(address: Address, fingerprint: str) -> Address:
    """The address with the key to pin, if its certificate cannot be checked otherwise."""
    # It takes 115 ms to load, and `treadle --help` must not pay that.
    from treadle.client.connection import check_way  # noqa: PLC0415
    from treadle.client.pinning import is_certified, key_of_server  # noqa: PLC0415

    if address.url.startswith("http:"):
        if fingerprint:
            raise InvalidInputError(f"{address.url} has no key to check; use https://")
        check_way(address, "a token")
        return address
    parts = urlsplit(address.url)
    place = str(parts.hostname), parts.port or 443
    try:
        found = key_of_server(*place)
    except OSError as error:
        raise InvalidInputError(
            f"no server answers with TLS at {address.url} ({error.strerror or error}); "
            "`treadle status` on its machine shows its address"
        ) from None
    if fingerprint:
        if found != fingerprint:
            raise InvalidInputError(
                f"the server at {address.url} has the key {found}, not {fingerprint}; nothing was "
                "sent to it"
            )
        return address._replace(fingerprint=found)
    if is_certified(*place):
        return address
    _confirm(address, found)
    return address._replace(fingerprint=found)


def _confirm(address: Address, found: str) -> None:
    """Ask whether to trust a key; there must be a person to answer."""
    kept = read_contexts().of_url(address.url)
    note(f"the certificate of {address.url} is not signed by an authority that you trust")
    note(f"its key is {found}")
    if kept is not None and kept.fingerprint and kept.fingerprint != found:
        note(f"that is ANOTHER key than at your last login ({kept.fingerprint})")
    if not sys.stdin.isatty():
        raise InvalidInputError(
            f"compare it with what `treadle status` prints on the server, and give it as "
            f"--fingerprint {found}"
        )
    if not click.confirm("is it what `treadle status` prints on the server?", err=True):
        raise InvalidInputError(f"the key of {address.url} was not trusted; nothing was sent to it")


def _token() -> str:
    if sys.stdin.isatty():
        token = getpass.getpass("token: ")
    else:
        token = sys.stdin.readline(TOKEN_CHARACTERS_MAX)
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise InvalidInputError(
            "a token is expected on standard input; `treadle token make NAME` on the server makes "
            "one"
        )
    return token


def _status(address: Address, token: str) -> Status:
    """What the server says to that token; raises if it does not take it."""
    from treadle.client.client import Client  # noqa: PLC0415

    with Client(address, token) as client:
        return client.status()
