"""The S3 server process: says its port in one line, then serves until its standard input closes.

The parent holds the other end of that pipe. When the parent ends in any way, SIGKILL included, the pipe closes and
this process ends too.
"""

from __future__ import annotations

import sys

from moto.server import ThreadedMotoServer


def main() -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    print(port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
