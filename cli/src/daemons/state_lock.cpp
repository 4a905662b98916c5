#include "daemons/state_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>

#include "schema/state_directory.hpp"

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
  TRIMTAB_TRY_STATUS(check_own_state(directory));
  TRIMTAB_TRY_STATUS(make_own_directories(directory, directory));
  TRIMTAB_TRY(Descriptor lock, open_own_file(directory + "/up.lock", O_RDWR | O_CREAT));
  if (!taken(lock.get(), clock, patience)) {
    return unavailable("another trimtab is starting or stopping the daemons in " + directory +
                       " and takes longer than this one may wait");
  }
  return lock;
}

}  // namespace trimtab::cli
