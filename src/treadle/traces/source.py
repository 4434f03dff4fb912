"""A file as lines of text, plain or gzip, never more than one block of it in memory.

The first two bytes identify gzip, not the file's name. A line longer than the limit is an error
before it is read to its end, so a file of one endless line costs one block.
"""

from collections.abc import Iterable, Iterator
from gzip import GzipFile
from io import StringIO
from pathlib import Path
from zlib import error as ZlibError  # noqa: N812

from treadle.core.errors import InvalidInputError

LINE_BYTES_MAX = 1 << 20
_BLOCK_BYTES = LINE_BYTES_MAX  # only the first and last line of a block can exceed the limit
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def lines(name: str, parts: Iterable[bytes]) -> Iterator[str]:
    """The lines of a file's blocks with their ends, the last one with or without."""
    carry, number = b"", 1  # number is the line that carry begins
    for block in parts:
        first = block.find(b"\n")
        if len(carry) + (len(block) if first < 0 else first) > LINE_BYTES_MAX:
            raise InvalidInputError(
                f"{name} line {number} is longer than {LINE_BYTES_MAX:,} bytes; "
                "expected one job or node a line"
            )
        if first < 0:
            carry += block
            continue
        cut = block.rfind(b"\n") + 1
        text = _decoded(carry + block[:cut], name, number)
        yield from StringIO(text, newline="\n")
        carry, number = block[cut:], number + text.count("\n")
    if carry:
        yield _decoded(carry, name, number)


def blocks(path: str) -> Iterator[bytes]:
    """The file's bytes, decompressed, without a byte order mark; errors name the path as typed."""
    if not path:
        raise InvalidInputError("the name of the file is empty; expected a path")
    try:
        with Path(path).open("rb") as file:
            packed = file.peek(2)[:2] == _GZIP_MAGIC
            stream = GzipFile(fileobj=file) if packed else file
            block = stream.read(_BLOCK_BYTES).removeprefix(_BYTE_ORDER_MARK)
            while block:
                yield block
                block = stream.read(_BLOCK_BYTES)
    except FileNotFoundError:
        raise InvalidInputError(f"{path} does not exist; check the path") from None
    except IsADirectoryError:
        raise InvalidInputError(f"{path} is a directory; expected a file") from None
    except PermissionError:
        raise InvalidInputError(f"{path} may not be read; check its permissions") from None
    except EOFError:
        raise InvalidInputError(
            f"{path} ends in the middle of its gzip data; copy or download it again"
        ) from None
    except ZlibError as error:
        raise InvalidInputError(
            f"{path} is damaged gzip data ({error}); copy or download it again"
        ) from None
    except OSError as error:  # gzip.BadGzipFile is one too
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}") from None


def _decoded(data: bytes, name: str, number: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = number + data.count(b"\n", 0, error.start)
        raise InvalidInputError(
            f"{name} line {line} holds the byte 0x{data[error.start]:02x}, which is not UTF-8; "
            "expected a text file, plain or gzip"
        ) from None
