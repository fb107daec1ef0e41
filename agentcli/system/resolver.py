"""The addresses of a host, found in a daemon thread: a slow resolver must not delay the exit."""

import asyncio
import socket
import threading
from concurrent.futures import Future


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses, best first. Raise socket.gaierror if there are none."""
    found: Future[list[str]] = Future()
    threading.Thread(target=_look_up, args=(host, port, found), daemon=True).start()
    return await asyncio.wrap_future(found)


def _look_up(host: str, port: int, found: Future[list[str]]) -> None:
    if not found.set_running_or_notify_cancel():
        return  # the waiting task was cancelled
    # As bytes if possible: for text a codec is imported, even for a numeric address.
    name = host.encode() if host.isascii() else host
    try:
        rows = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        found.set_exception(error)
    except UnicodeError:  # not a valid host name: a label is empty or too long
        found.set_exception(socket.gaierror(socket.EAI_NONAME, "not a host name"))
    else:
        found.set_result(list(dict.fromkeys(str(row[4][0]) for row in rows)))
