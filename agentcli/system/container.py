"""Whether this is a container, by the files and variables that container programs set.

There is no better way to know.
"""

import os
from pathlib import Path

_FILES = (Path("/.dockerenv"), Path("/run/.containerenv"))
_VARIABLES = ("container", "KUBERNETES_SERVICE_HOST")


def has_container_file() -> bool:
    return any(path.exists() for path in _FILES)


def is_container() -> bool:
    return has_container_file() or any(map(os.environ.get, _VARIABLES))
