#pragma once

// The Asio side of EventLoop, for net's own sources.

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <thread>

#include "net/event_loop.hpp"

namespace trimtab::net {

struct EventLoop::Context {
  // One thread runs it, so Asio may leave out its locks between handlers; post() still takes them.
  boost::asio::io_context io{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
  std::optional<boost::asio::signal_set> signals;
  std::atomic<std::thread::id> runner{};  // nobody: the loop does not run
};

}  // namespace trimtab::net
