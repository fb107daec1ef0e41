"""A command that is the program: it hands its streams to `warm_server` and ends as the fork does.

For clients that start a command themselves. A signal to end is passed on, SIGKILL cannot be. It is
run as a file, by an interpreter that loads nothing else, with SOCKET PROGRAM CWD [ARGUMENT...].
"""

import json
import os
import signal
import socket
import sys

_OF_THE_INTERPRETER = {"PYTHONPATH", "PYTHONHOME", "PYTHONUTF8", "PYTHONIOENCODING"}
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    place, program, cwd, *words = sys.argv[1:]
    if not _OF_THE_INTERPRETER.isdisjoint(os.environ):
        os.execv(sys.executable, [sys.executable, program, *words])
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # until it is known whom to pass them to
    reader, writer = os.pipe()
    order = json.dumps([[program, *words], dict(os.environ), cwd, False]).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as orders:
        orders.connect(place)
        socket.send_fds(orders, [order], [0, 1, 2, writer])
    for handle in (0, 1, 2, writer):
        os.close(handle)
    with os.fdopen(reader) as report:
        pid = int(report.readline())
        for number in _PASSED_ON:
            signal.signal(number, lambda number, _: os.kill(pid, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        return int(report.readline())


if __name__ == "__main__":
    code = main()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
