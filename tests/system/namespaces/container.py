"""A process in a container of its own: new user, PID, IPC, mount and network namespaces, its own /tmp and /dev/shm, and of
the machine's files only what it is given."""
import os
import pathlib
import subprocess

# Files are taken before /tmp is replaced. `$1` is the number of files, then pairs of where they are and what they are called
# in /mnt; then the command.
INSIDE = r"""
set -e
ip link set lo up
mount -t tmpfs none /mnt
count=$1; shift
while [ "$count" -gt 0 ]; do
  if [ -d "$1" ]; then mkdir "/mnt/$2"; else touch "/mnt/$2"; fi
  mount --bind "$1" "/mnt/$2"
  shift 2; count=$((count - 1))
done
mount -t tmpfs none /dev/shm
mount -t tmpfs none /tmp
cd /mnt
exec "$@"
"""


def missing():
    """Why there can be no containers here; empty: there can."""
    if os.geteuid() != 0:
        return "tests of containers need root"
    try:
        made = subprocess.run(["unshare", "--user", "--map-root-user", "--keep-caps", "--pid", "--fork", "--mount-proc", "--ipc", "--mount",
                               "--net", "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    except OSError as absent:
        return f"containers need unshare: {absent}"
    return "" if made.returncode == 0 else f"this machine makes no containers: {made.stderr.strip()}"


def start(files, command, environment, users=("--map-root-user",), **streams):
    """`files`: what is in /mnt there, by name. The process is that of unshare, outside; its child is the container's first,
    and ends with it."""
    pairs = [word for name, path in files.items() for word in (str(path), name)]
    words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--user", *users, "--keep-caps", "--pid", "--fork", "--kill-child", "--mount-proc",
             "--ipc", "--mount", "--net", "sh", "-c", INSIDE, "sh", str(len(files)), *pairs, *map(str, command)]
    return subprocess.Popen(words, env={"PATH": os.environ["PATH"], "TRIMTAB_RUN_AS_ROOT": "true", **environment}, **streams)


def first_process(container):
    """The PID of the container's first process, as it is outside."""
    children = pathlib.Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
    return int(children[0]) if children else 0
