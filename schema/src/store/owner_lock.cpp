#include "store/owner_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

namespace trimtab {

namespace {

// Together how long the kernel may take to close the files of a process that was killed: ten seconds.
constexpr int kTries = 500;
constexpr std::chrono::milliseconds kPause{20};

// Digits; empty where the file does not say.
std::string owner_of(int file) {
  std::array<char, 32> text{};
  const ssize_t length = pread(file, text.data(), text.size() - 1, 0);
  const std::string pid(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return pid.substr(0, pid.find_first_not_of("0123456789"));
}

// Has it ended, or is it about to by a SIGKILL? proc(5): the state of the main thread, and signals as masks in
// hexadecimal. The main thread may be gone while another one still holds the process's files.
bool is_ending(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  if (!status) return true;
  constexpr unsigned long long kKillMask = 1ULL << (SIGKILL - 1);
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:\tZ") || line.starts_with("State:\tX")) return true;
    const bool pending = line.starts_with("SigPnd:") || line.starts_with("ShdPnd:");
    if (pending && (std::strtoull(line.c_str() + line.find('\t'), nullptr, 16) & kKillMask) != 0) return true;
  }
  return false;
}

// Errno of the last try; 0 = locked. An owner that is ending is waited for.
int lock_file(int file) {
  for (int tries = 0;; ++tries) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return 0;
    const int failure = errno;
    if (failure == EINTR) continue;
    if (failure != EWOULDBLOCK || tries == kTries) return failure;
    if (const std::string pid = owner_of(file); pid.empty() || !is_ending(pid)) return failure;
    std::this_thread::sleep_for(kPause);
  }
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
  const int failure = lock_file(file);
  if (failure == 0) {
    write_pid(file);
    return lock;
  }
  if (failure != EWOULDBLOCK) return unavailable("cannot lock " + path + ": " + std::strerror(failure));
  const std::string pid = owner_of(file);
  return unavailable(database_path + " belongs to " + (pid.empty() ? "another process" : "process " + pid) +
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
