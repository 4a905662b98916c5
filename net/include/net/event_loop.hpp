#pragma once

// The one thread that owns a daemon's state. Everything a daemon does happens in callbacks on this loop, so its state
// needs no lock. Wraps an Asio io_context; Asio's headers stay in net/src.
//
// post() may be called from any thread; everything else only from the loop's thread (or before run()).

#include <functional>
#include <memory>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab::net {

class EventLoop final {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs until stop(). Callbacks must not throw.
  void run();
  void stop();
  // Of what the loop's thread owns: asserts that no other thread calls while the loop runs.
  void assert_on_loop() const;
  void post(std::function<void()> work);

  // Of a callback that is to come. Destroying or cancel()ling it keeps the callback from running.
  class Timer {
   public:
    Timer() = default;
    Timer(Timer&&) = default;
    Timer& operator=(Timer&&) = default;
    void cancel() { guard_.reset(); }

   private:
    friend class EventLoop;
    std::shared_ptr<void> guard_;  // its end cancels
  };
  [[nodiscard]] Timer after(Nanoseconds delay, std::function<void()> work);
  [[nodiscard]] Timer every(Nanoseconds period, std::function<void()> work);

  // Calls `work` with the signal's number for SIGINT and SIGTERM (and SIGHUP), and SIGCHLD when asked for.
  void on_signals(bool with_child_signal, std::function<void(int)> work);

  // Calls `work` whenever the descriptor is readable, until the Watch is destroyed. Does not own the descriptor.
  using Watch = Timer;
  [[nodiscard]] Watch when_readable(int descriptor, std::function<void()> work);

  // For net's own sources: the io_context behind it.
  struct Context;
  [[nodiscard]] Context& context() { return *context_; }

 private:
  std::unique_ptr<Context> context_;
};

}  // namespace trimtab::net
