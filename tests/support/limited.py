"""The program with a limit for the size of its files, as if the disk were full beyond it.

Run as a script, with the limit in bytes and then the arguments of the program.
"""

import resource
import sys

from agentcli.__main__ import main

if __name__ == "__main__":
    limit_bytes = int(sys.argv.pop(1))
    sys.dont_write_bytecode = True  # half of it would break every later start
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    main()
