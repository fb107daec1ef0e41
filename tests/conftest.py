"""Signals mean to the programs under test what they usually do, however the tests were started.

A shell that starts a job in the background, and nohup, make it ignore some, and that is inherited.
"""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
for name in ("SIGHUP", "SIGQUIT"):
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
