#pragma once

// Ctrl-C and SIGTERM as a question instead of the end, for verbs that have something to put in order first.

namespace trimtab::cli {

// While one lives, the first SIGINT or SIGTERM is only remembered; a second one ends the process as usual.
// At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  // Any thread.
  [[nodiscard]] static bool interrupted();
};

}  // namespace trimtab::cli
