"""Who listens at the agent's Unix socket.

A process does what its agent says and hands it what it measures, and whoever may write in the socket's directory can
listen there instead. So each connection looks at the listener before it sends anything.
"""
import os
import socket
import struct

_CREDENTIALS = struct.Struct("=iII")  # Of struct ucred: PID, user, group.
_ALL_USERS = 0xFFFFFFFF  # -1 is nobody's.


def objection(connection, path, environment=os.environ):
    """What speaks against the listener, or "". He must be root, this process's user, or TRIMTAB_AGENT_UID."""
    try:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError as error:
        return f"it cannot be seen who listens at {path}: {error}"
    _, user, _ = _CREDENTIALS.unpack(credentials)
    if user not in (0, os.geteuid()) and str(user) != environment.get("TRIMTAB_AGENT_UID"):
        return (f"user {user} listens at {path}, and expected was root or user {os.geteuid()}. Nothing was sent to it. "
                f"If it is your agent, set TRIMTAB_AGENT_UID={user}")
    if not _is_one_user(user):
        return f"who listens at {path} has no number in this container (user namespace), so it may be anybody. Map that user here"
    return ""


def _is_one_user(user):
    """In a container all users that have no number there are shown as one."""
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            unknown = int(file.read())
        with open("/proc/self/uid_map", encoding="ascii") as file:
            known = sum(int(line.split()[2]) for line in file)
    except (OSError, ValueError, IndexError):
        unknown, known = 65534, 0
    return user != unknown or known >= _ALL_USERS
