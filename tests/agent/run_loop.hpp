#pragma once

#include <functional>

#include "net/event_loop.hpp"

namespace trimtab::agent {

// Runs the loop until `done` holds; false after `limit`.
[[nodiscard]] inline bool run_until(net::EventLoop& loop, const std::function<bool()>& done,
                                    Nanoseconds limit = std::chrono::seconds(60)) {
  bool late = false;
  const auto watchdog = loop.after(limit, [&] {
    late = true;
    loop.stop();
  });
  const auto look = loop.every(std::chrono::milliseconds(1), [&] {
    if (done()) loop.stop();
  });
  loop.run();
  return !late;
}

}  // namespace trimtab::agent
