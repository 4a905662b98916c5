"""What a process's own connections tell of its links: over real sockets of this machine's addresses."""

import os
import pathlib
import socket
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))
from trimtab.watch import links as module  # noqa: E402
from trimtab.watch.links import Links  # noqa: E402


class OtherHost:
    """127.0.0.2 stands for another host: what the module leaves out for being this one is told apart by its address alone."""

    def __init__(self, own="127.0.0.1", other="127.0.0.2"):
        self.server = socket.create_server((other, 0))
        self.near = socket.create_connection(self.server.getsockname(), source_address=(own, 0))
        self.far, _ = self.server.accept()
        self.read, self.more = 0, threading.Condition()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        while chunk := self.far.recv(1 << 20):
            with self.more:
                self.read += len(chunk)
                self.more.notify()

    def send(self, count):
        """Returns when all that was ever sent has been read."""
        self.near.sendall(bytes(count))
        with self.more:
            self.sent = getattr(self, "sent", 0) + count
            assert self.more.wait_for(lambda: self.read == self.sent, timeout=30)

    def close(self):
        self.near.close()
        self.reader.join()
        self.far.close()
        self.server.close()


def told_as_hosts(test):
    """Addresses of 127/8 count as other hosts."""
    plain = module._address

    def renamed(ask, descriptor):
        address = plain(ask, descriptor)
        return address and address.replace("127.", "10.")

    module._address = renamed
    test.addCleanup(setattr, module, "_address", plain)


class LinksTest(unittest.TestCase):
    def test_bytes_are_those_sent_since_the_first_sample(self):
        told_as_hosts(self)
        host = OtherHost()
        self.addCleanup(host.close)
        host.send(3_000_000)
        watched = Links()
        watched.sample()
        host.send(8_000_000)
        (link,) = watched.sample()
        self.assertEqual((link["from"], link["to"]), ("10.0.0.1", "10.0.0.2"))
        # What was read last may not be acknowledged yet, of the first bytes as of the later ones.
        self.assertGreater(link["bytes"], 4_000_000)
        self.assertLessEqual(link["bytes"], 11_000_000)
        self.assertGreaterEqual(link["busy_ns"], 0)  # On loopback the receiver alone may be what is waited for.

    def test_this_host_is_no_link(self):
        host = OtherHost()
        self.addCleanup(host.close)
        watched = Links()
        watched.sample()
        host.send(1_000_000)
        self.assertEqual(watched.sample(), [])

    def test_what_is_no_connection_is_passed_over(self):
        told_as_hosts(self)
        listening = socket.create_server(("127.0.0.3", 0))
        datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        local = socket.socketpair()
        pipe = os.pipe()
        for closing in (listening, datagram, *local):
            self.addCleanup(closing.close)
        for descriptor in pipe:
            self.addCleanup(os.close, descriptor)
        watched = Links()
        watched.sample()
        self.assertEqual(watched.sample(), [])

    def test_a_descriptor_that_is_used_again_begins_anew(self):
        told_as_hosts(self)
        watched = Links()
        first = OtherHost()
        number = first.near.fileno()
        watched.sample()
        first.send(5_000_000)
        first.close()
        second = OtherHost(other="127.0.0.4")
        self.addCleanup(second.close)
        if second.near.fileno() != number:
            os.dup2(second.near.fileno(), number)
            self.addCleanup(os.close, number)
        self.assertEqual([link for link in watched.sample() if link["to"] == "10.0.0.2"], [])

    def test_no_folder_of_descriptors(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(Links(os.path.join(folder, "absent")).sample(), [])

    def test_blocking_and_open_stay_as_they_were(self):
        told_as_hosts(self)
        host = OtherHost()
        self.addCleanup(host.close)
        before = socket.getdefaulttimeout()
        socket.setdefaulttimeout(5)
        self.addCleanup(socket.setdefaulttimeout, before)
        Links().sample()
        self.assertTrue(os.get_blocking(host.near.fileno()))
        host.near.sendall(b"still open")


if __name__ == "__main__":
    unittest.main()
