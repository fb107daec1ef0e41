"""What holds for every test: signals as usual, and layers of the sandbox only where they work.

A shell that starts a job in the background, and nohup, make it ignore some signals, and that is
inherited.
"""

import signal

import pytest

from tests.support.layers import explain_missing, is_about_sandbox, list_needed

signal.signal(signal.SIGINT, signal.default_int_handler)
for name in ("SIGHUP", "SIGQUIT"):
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for layer in list_needed(item):
        if reason := explain_missing(layer):
            pytest.skip(reason)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_about_sandbox(item):
            item.add_marker("sandbox")
