"""Descriptors that are kept open in the job's own process.

Jobs close what they do not know (os.closerange), and the number may then be another file's: whoever keeps one compares
file_of() before each use, and closes nothing that is not his any more. Jobs that run with their standard streams closed
print all the same: what is kept is above 2.
"""
import fcntl
import os


def above_standard_streams(descriptor):
    """The same file at a number from 3 on. The given one is closed where that is another. Raises OSError."""
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


def file_of(descriptor):
    """Which file that is, to be compared. None: it is closed."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
