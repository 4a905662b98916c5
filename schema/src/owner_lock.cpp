#include "owner_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace trimtab {

namespace {

std::string owner_of(int file) {
  std::array<char, 32> text{};
  const ssize_t length = pread(file, text.data(), text.size() - 1, 0);
  std::string pid(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  pid = pid.substr(0, pid.find_first_not_of("0123456789"));
  return pid.empty() ? "another process" : "process " + pid;
}

// For the message that a second owner gets; the lock holds without it, so a full disk is no reason to fail.
void write_pid(int file) {
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(file, 0) == 0 && pwrite(file, pid.data(), pid.size(), 0) < 0) errno = 0;
}

}  // namespace

Result<OwnerLock> OwnerLock::acquire(const std::string& database_path) {
  const std::string path = database_path + ".lock";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return unavailable("cannot create the lock file " + path + ": " + std::strerror(errno));
  OwnerLock lock(file);
  if (flock(file, LOCK_EX | LOCK_NB) == 0) {
    write_pid(file);
    return lock;
  }
  if (errno != EWOULDBLOCK) return unavailable("cannot lock " + path + ": " + std::strerror(errno));
  return unavailable(database_path + " belongs to " + owner_of(file) +
                     ", which still runs. Stop it first, or give this one a state directory of its own");
}

OwnerLock::OwnerLock(OwnerLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

OwnerLock& OwnerLock::operator=(OwnerLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

OwnerLock::~OwnerLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace trimtab
