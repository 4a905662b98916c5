#pragma once

// Ctrl-C and SIGTERM as a question instead of the end, for verbs that have something to put in order first.

namespace trimtab::cli {

// While one lives, the first so many SIGINT or SIGTERM are only remembered; the next one ends the process as usual.
// At most one at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(int remembered = 1);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  // Any thread.
  [[nodiscard]] static bool interrupted();
  // How many there were.
  [[nodiscard]] static int signals();
  // One of them was SIGTERM: no person, who might think better of it.
  [[nodiscard]] static bool terminated();
};

}  // namespace trimtab::cli
