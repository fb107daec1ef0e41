"""The addresses of a host, found in a daemon thread: a slow resolver must not delay the exit."""

import asyncio
import socket
import threading


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses, best first. Raise socket.gaierror if there are none."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def settle(addresses: list[str] | socket.gaierror) -> None:
        if found.done():
            return  # the waiting task was cancelled
        if isinstance(addresses, socket.gaierror):
            found.set_exception(addresses)
        else:
            found.set_result(addresses)

    def look_up() -> None:
        addresses = _look_up(host, port)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, addresses)

    threading.Thread(target=look_up, daemon=True).start()
    return await found


def _look_up(host: str, port: int) -> list[str] | socket.gaierror:
    # As bytes if possible: for text a codec is imported, even for a numeric address.
    name = host.encode() if host.isascii() else host
    try:
        rows = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return error
    except UnicodeError:  # not a valid host name: a label is empty or too long
        return socket.gaierror(socket.EAI_NONAME, "not a host name")
    return list(dict.fromkeys(str(row[4][0]) for row in rows))
