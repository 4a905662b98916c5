"""Starts so many ranks of a command on this machine, as a launcher would, and ends as the worst of them.

    ranks.py 3 -- /usr/bin/python3 job.py --fault slow_rank
"""

import os
import socket
import subprocess
import sys


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    place = sys.argv.index("--")
    ranks = int(sys.argv[1])
    common = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [subprocess.Popen(sys.argv[place + 1:], env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
               for rank in range(ranks)]
    return max(abs(one.wait()) for one in started)


if __name__ == "__main__":
    sys.exit(main())
