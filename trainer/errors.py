"""The two ways in which the trainer gives up, each with the exit status that a caller can act on."""


class BadInput(Exception):
    """A person or peer gave something that cannot be used; the message says what was needed and found."""

    exit_status = 2


class OutsideFailure(Exception):
    """Something outside the program failed: a peer, a disk, the memory limit."""

    exit_status = 3
