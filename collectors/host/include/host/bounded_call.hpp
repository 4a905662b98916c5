#pragma once

// A call that may never return, waited for only so long.

#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.hpp"

namespace trimtab::host {

// The result, or nullopt after `limit`: then the call goes on, on a thread that is left behind. So `function` must own
// what it uses. Any thread may call.
template <typename Value>
[[nodiscard]] std::optional<Value> within(Nanoseconds limit, std::function<Value()> function) {
  std::packaged_task<Value()> task(std::move(function));
  std::future<Value> result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return result.get();
}

}  // namespace trimtab::host
