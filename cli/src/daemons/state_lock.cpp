#include "daemons/state_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPoll = std::chrono::milliseconds(20);

bool taken(int lock, const Clock& clock, std::optional<Nanoseconds> patience) {
  if (!patience) {
    while (flock(lock, LOCK_EX) != 0 && errno == EINTR) {
    }
    return true;
  }
  const Nanoseconds end = clock.monotonic() + *patience;
  while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && errno != EWOULDBLOCK) return true;  // a file system without locks
    if (clock.monotonic() >= end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

}  // namespace

Result<Descriptor> lock_state(const std::string& directory, const Clock& clock, std::optional<Nanoseconds> patience) {
  TRIMTAB_TRY_STATUS(make_private_directory(directory));
  const std::string path = directory + "/up.lock";
  Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640));
  if (lock.get() < 0)
    return unavailable("cannot write in the state directory " + directory + ": " + std::strerror(errno));
  if (!taken(lock.get(), clock, patience)) {
    return unavailable("another trimtab is starting or stopping the daemons in " + directory +
                       " and takes longer than this one may wait");
  }
  return lock;
}

}  // namespace trimtab::cli
