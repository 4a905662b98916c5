#pragma once

// Says "this process owns that database" to other processes, by an flock on a file beside it. The kernel drops the lock
// with the process, however it ends, so it is never stale; the file itself stays. Not inherited through exec.

#include <string>

#include "base/result.hpp"

namespace trimtab {

class OwnerLock {
 public:
  OwnerLock() = default;  // owns nothing
  // Fails with the pid of the owner when there is one. Waits up to ten seconds for an owner that is ending: the kernel
  // closes the files of a killed process a moment after its pid is a zombie.
  [[nodiscard]] static Result<OwnerLock> acquire(const std::string& database_path);
  OwnerLock(OwnerLock&& other) noexcept;
  OwnerLock& operator=(OwnerLock&& other) noexcept;
  ~OwnerLock();

 private:
  explicit OwnerLock(int file) : file_(file) {}
  int file_ = -1;
};

}  // namespace trimtab
