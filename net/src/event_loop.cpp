#include "net/event_loop.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <exception>

#include "base/check.hpp"
#include "context.hpp"

namespace trimtab::net {

namespace asio = boost::asio;
using boost::system::error_code;

EventLoop::EventLoop() : context_(std::make_unique<Context>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::run() {
  context_->runner = std::this_thread::get_id();
  try {
    context_->io.restart();
    context_->io.run();
    context_->runner = std::thread::id{};
  } catch (const std::exception& escaped) {
    assertion_failed("a callback on the event loop threw", escaped.what(), __FILE__, __LINE__);
  }
}

void EventLoop::stop() {
  context_->io.stop();
}

void EventLoop::assert_on_loop() const {
  const std::thread::id runner = context_->runner;
  TRIMTAB_ASSERT(runner == std::thread::id{} || runner == std::this_thread::get_id(),
                 "only the loop's thread may call this while the loop runs");
}

void EventLoop::post(std::function<void()> work) {
  asio::post(context_->io, std::move(work));
}

namespace {

struct TimerWork : std::enable_shared_from_this<TimerWork> {
  explicit TimerWork(asio::io_context& io) : timer(io) {}

  void arm() {
    timer.async_wait([self = shared_from_this()](error_code failure) {
      if (failure || self->cancelled) return;
      self->expire();
    });
  }

  void expire() {
    if (period.count() > 0) {
      // A late loop skips the beats that it missed instead of running them all at once.
      const auto now = std::chrono::steady_clock::now();
      auto next = timer.expiry() + period;
      if (next < now) next = now + period;
      timer.expires_at(next);
      arm();
    }
    const auto kept = work;  // The work may destroy the Timer.
    kept();
  }

  void cancel() {
    cancelled = true;
    timer.cancel();
  }

  asio::steady_timer timer;
  Nanoseconds period{0};
  std::function<void()> work;
  bool cancelled = false;
};

struct WatchWork : std::enable_shared_from_this<WatchWork> {
  WatchWork(asio::io_context& io, int number) : descriptor(io, number) {}

  void arm() {
    descriptor.async_wait(asio::posix::descriptor_base::wait_read, [self = shared_from_this()](error_code failure) {
      if (failure || self->cancelled) return;
      const auto kept = self->work;  // The work may destroy the Watch.
      kept();
      if (!self->cancelled) self->arm();
    });
  }

  void cancel() {
    cancelled = true;
    descriptor.release();
  }

  asio::posix::stream_descriptor descriptor;
  std::function<void()> work;
  bool cancelled = false;
};

// Its end cancels what an operation may still hold.
template <typename Work>
std::shared_ptr<void> guard_of(const std::shared_ptr<Work>& work) {
  return {nullptr, [work](std::nullptr_t) { work->cancel(); }};
}

std::shared_ptr<TimerWork> timer_work(asio::io_context& io, Nanoseconds delay, std::function<void()> work) {
  auto timer = std::make_shared<TimerWork>(io);
  timer->work = std::move(work);
  timer->timer.expires_after(delay);
  timer->arm();
  return timer;
}

}  // namespace

EventLoop::Timer EventLoop::after(Nanoseconds delay, std::function<void()> work) {
  assert_on_loop();
  Timer timer;
  timer.guard_ = guard_of(timer_work(context_->io, delay, std::move(work)));
  return timer;
}

EventLoop::Timer EventLoop::every(Nanoseconds period, std::function<void()> work) {
  TRIMTAB_ASSERT(period.count() > 0, "a repeating timer needs a period");
  assert_on_loop();
  const auto repeated = timer_work(context_->io, period, std::move(work));
  repeated->period = period;
  Timer timer;
  timer.guard_ = guard_of(repeated);
  return timer;
}

namespace {

void wait_for_signal(asio::signal_set& signals, std::shared_ptr<const std::function<void(int)>> work) {
  signals.async_wait([&signals, work = std::move(work)](error_code failure, int number) {
    if (failure) return;
    wait_for_signal(signals, work);
    (*work)(number);
  });
}

}  // namespace

void EventLoop::on_signals(bool with_child_signal, std::function<void(int)> work) {
  TRIMTAB_ASSERT(!context_->signals, "signals are asked for once");
  auto& signals = context_->signals.emplace(context_->io, SIGINT, SIGTERM, SIGHUP);
  if (with_child_signal) signals.add(SIGCHLD);
  wait_for_signal(signals, std::make_shared<const std::function<void(int)>>(std::move(work)));
}

EventLoop::Watch EventLoop::when_readable(int descriptor, std::function<void()> work) {
  assert_on_loop();
  const auto watched = std::make_shared<WatchWork>(context_->io, descriptor);
  watched->work = std::move(work);
  watched->arm();
  Watch watch;
  watch.guard_ = guard_of(watched);
  return watch;
}

}  // namespace trimtab::net
