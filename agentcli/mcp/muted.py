"""The library's own log, kept off the screen: without a handler Python would print it to stderr.

Whoever sets up a log of ours still gets it there.
"""

import logging

LIBRARY = ("mcp", "client", "server")
"""Not all of its modules log under its name."""


def silence_library_log() -> None:
    for name in LIBRARY:
        logging.getLogger(name).addHandler(logging.NullHandler())
