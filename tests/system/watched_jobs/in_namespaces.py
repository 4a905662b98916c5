"""Runs a job's ranks in network namespaces of their own, each behind a link of so many Mbit/s. As root.

    in_namespaces.py --ranks 3 --mbit 400 --halved 1 -- /usr/bin/python3 job.py --model mlp

The link of rank --halved gives half in both directions. -1: of none.
"""

import argparse
import os
import subprocess
import sys

BRIDGE = "trimtab-br"
NETWORK = "10.77.0."


def run(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True)


def limit(mbit, interface, *where):
    run(*where, "tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", "50ms")


class Network:
    def __init__(self, ranks, mbit, halved):
        self.ranks, self.mbit, self.halved = ranks, mbit, halved

    def __enter__(self):
        self.remove()
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "link", "set", BRIDGE, "up")
        for rank in range(self.ranks):
            name, end = self.name(rank), f"trimtab-v{rank}"
            mbit = self.mbit // 2 if rank == self.halved else self.mbit
            run("ip", "netns", "add", name)
            run("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", end, "master", BRIDGE, "up")
            inside = ("ip", "netns", "exec", name)
            run(*inside, "ip", "address", "add", f"{NETWORK}{rank + 1}/24", "dev", "eth0")
            run(*inside, "ip", "link", "set", "eth0", "up")
            run(*inside, "ip", "link", "set", "lo", "up")
            limit(mbit, end)
            limit(mbit, "eth0", *inside)
        return self

    def __exit__(self, *_):
        self.remove()

    @staticmethod
    def name(rank):
        return f"trimtab-n{rank}"

    def remove(self):
        for rank in range(self.ranks):
            run("ip", "netns", "del", self.name(rank), check=False)
            run("ip", "link", "del", f"trimtab-v{rank}", check=False)
        run("ip", "link", "del", BRIDGE, check=False)


def main():
    place = sys.argv.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--mbit", type=int, default=400)
    parser.add_argument("--halved", type=int, default=-1)
    options = parser.parse_args(sys.argv[1:place])
    command = sys.argv[place + 1:]
    with Network(options.ranks, options.mbit, options.halved) as network:
        started = []
        for rank in range(options.ranks):
            environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(options.ranks),
                           "MASTER_ADDR": NETWORK + "1", "MASTER_PORT": "29571", "GLOO_SOCKET_IFNAME": "eth0",
                           "OMP_NUM_THREADS": "1"}
            started.append(subprocess.Popen(["ip", "netns", "exec", network.name(rank), *command], env=environment))
        return max(one.wait() for one in started)


if __name__ == "__main__":
    sys.exit(main())
