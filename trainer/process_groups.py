"""The job's process groups: rendezvous, neighbours' transfers, the groups of a plan, and the control exchange.

Main thread only. With one rank there is no process group at all and every exchange is with oneself.
"""
import collections
import datetime
import fcntl
import os
import socket
import struct
import urllib.parse

import torch
import torch.distributed as dist

import layout_change
from collectives import DATA, TENSOR, Group
from errors import BadInput, OutsideFailure
from schedule import BACKWARD, FORWARD

# More than plans of a few ranks have in turn; beyond it the least recently used group is destroyed.
GROUPS_KEPT = 32
_SIOCGIFADDR = 0x8915  # Linux


def open_store(rendezvous, rank, world_size, timeout, attempt=0):
    """The key-value store at a file:// or tcp:// address that all ranks share. What an earlier attempt of these
    processes has left there is not seen: its store may still stand at its port while rank 0 has not begun anew."""
    address = urllib.parse.urlparse(rendezvous or "")
    if address.scheme == "file" and address.path:
        if address.path and not os.path.isdir(os.path.dirname(address.path)):
            raise BadInput(f"--rendezvous {rendezvous}: the folder {os.path.dirname(address.path)} does not exist")
        _prefer_loopback()
        return dist.FileStore(address.path + (f".{attempt}" if attempt else ""), world_size)
    if address.scheme == "tcp" and address.hostname and address.port:
        if address.hostname in ("127.0.0.1", "localhost"):
            _prefer_loopback()
        try:
            return dist.TCPStore(address.hostname, address.port + attempt, world_size, rank == 0, timeout)
        except RuntimeError as error:
            raise OutsideFailure(f"rank {rank}: no rendezvous at {rendezvous}: {error}") from error
    raise BadInput(f"--rendezvous must be file:///path or tcp://host:port, found {rendezvous}")


def groups_of(plan):
    """[(purpose, members)] of a plan, each once, in an order that all ranks share."""
    wanted = {}
    for stage in plan.stages:
        for segment in stage.segments:
            for rank in segment.devices:
                place = segment.place_of(rank)
                wanted[TENSOR, segment.tensor_members(place)] = None
                wanted[TENSOR, segment.context_members(place)] = None
                if segment.sequence:
                    wanted[DATA, segment.whole_members(place)] = None
                if segment.sharded == "none":
                    wanted[DATA, segment.data_members(place)] = None
                else:
                    wanted[DATA, segment.shard_members(place)] = None
                    wanted[DATA, segment.copy_members(place)] = None
        for before, after in zip(stage.segments, stage.segments[1:]):
            for members in layout_change.groups_of(before, after) + layout_change.groups_of(after, before):
                wanted[TENSOR, members] = None
    return [key for key in wanted if len(key[1]) > 1]


def _prefer_loopback():
    """Ranks of one machine need no name resolution to find each other. A set variable wins (shared file systems)."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


class ProcessGroups:
    def __init__(self, rank, world_size, device, store=None, timeout=datetime.timedelta(seconds=120)):
        self.rank, self.world_size = rank, world_size
        self._groups = collections.OrderedDict()
        self._control = None
        self._timeout, self._native = timeout, False
        if world_size == 1:
            return
        backend = "nccl" if device.type == "cuda" else "gloo"
        self._native = backend == "nccl"  # It has a reduce-scatter of its own.
        dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=timeout)
        self._control = dist.group.WORLD
        ways = [(kind, wraps) for kind in (FORWARD, BACKWARD) for wraps in (False, True)]
        self._passing = dict.fromkeys(ways, dist.group.WORLD)
        if backend == "nccl":
            # NCCL runs one group's transfers in issue order on one stream: both directions in one group deadlock.
            self._passing = {way: dist.new_group() for way in ways}
            self._control = dist.new_group(backend="gloo")

    def send(self, tensor, peer, kind, wraps, tag):
        """`wraps`: between the ends of a pipeline whose stages go round the ranks."""
        return dist.isend(tensor, peer, group=self._passing[kind, wraps], tag=tag)

    def receive(self, tensor, peer, kind, wraps, tag):
        return dist.irecv(tensor, peer, group=self._passing[kind, wraps], tag=tag)

    def send_state(self, tensor, peer):
        dist.send(tensor, peer, group=self._passing[FORWARD, False])

    def receive_state(self, tensor, peer):
        dist.recv(tensor, peer, group=self._passing[FORWARD, False])

    def prepare(self, plan):
        """Make the groups of a plan. All ranks call it at the same point, with the same plan."""
        wanted = groups_of(plan)
        for key in wanted:
            self._make(key)
        while len(self._groups) > max(GROUPS_KEPT, len(wanted)):
            _, group = self._groups.popitem(last=False)
            if group is not dist.GroupMember.NON_GROUP_MEMBER:
                dist.destroy_process_group(group)

    def _make(self, key):
        if key not in self._groups:
            self._groups[key] = dist.new_group(list(key[1]), timeout=self._timeout)
        self._groups.move_to_end(key)

    def group(self, purpose, members):
        """The Group of these ranks, of which this is one, in a prepared plan."""
        return Group(self._groups[purpose, members], members, self.rank, self._native)

    def make_group(self, members):
        """A group that no plan needs, on all ranks at the same point; None for those outside it."""
        self._make((DATA, members))
        return self.group(DATA, members) if self.rank in members else None

    def gather_integers(self, values):
        """Every rank's list of 64-bit integers, in rank order: the control exchange."""
        if self.world_size == 1:
            return [list(values)]
        mine = torch.tensor(values, dtype=torch.int64)
        everyone = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(everyone, mine, group=self._control)
        return [tensor.tolist() for tensor in everyone]

    def gather_objects(self, value):
        """Every rank's small Python value, in rank order. For rare exchanges: it pickles."""
        if self.world_size == 1:
            return [value]
        everyone = [None] * self.world_size
        dist.all_gather_object(everyone, value, group=self._control)
        return everyone

    def minimum(self, value):
        return min(row[0] for row in self.gather_integers([value]))

    def barrier(self):
        self.gather_integers([0])

    def close(self):
        if self.world_size > 1:
            dist.destroy_process_group()


def own_address_towards(rendezvous, environment=os.environ):
    """The address of this machine that the other ranks of the rendezvous can reach: that of the interface which
    GLOO_SOCKET_IFNAME names, as for Gloo's own connections, else the one on the way to the rendezvous."""
    interface = environment.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    if interface and interface != "lo":
        return _address_of(interface)
    host = urllib.parse.urlparse(rendezvous).hostname
    if host in (None, "127.0.0.1", "localhost"):
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # Sends nothing; only picks the route.
        return probe.getsockname()[0]


def _address_of(interface):
    """The IPv4 address of a network interface of this machine (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16s24x", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, request)
        except OSError as error:
            there = ", ".join(name for _, name in socket.if_nameindex())
            raise BadInput(f"GLOO_SOCKET_IFNAME names {interface}, which has no IPv4 address here "
                           f"({error.strerror}); there are {there}") from error
    return socket.inet_ntoa(answer[20:24])
