#pragma once

// Runs a job's describe command and returns what it prints.

#include <memory>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "commands/running_command.hpp"
#include "net/event_loop.hpp"
#include "ranks/rank_command.hpp"

namespace trimtab::agent {

[[nodiscard]] Result<std::unique_ptr<RunningCommand>> start_describe(net::EventLoop& loop, const Job& job,
                                                                     Environment base, Nanoseconds deadline,
                                                                     CommandCallbacks callbacks);

}  // namespace trimtab::agent
