#include "session.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "collector_status.hpp"
#include "cupti/cupti_library.hpp"
#include "recorder.hpp"

namespace trimtab::inject {

namespace {

// The application's errno is none of our business.
class ErrnoKeeper {
 public:
  ErrnoKeeper() : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_;
};

}  // namespace

bool Session::wanted() {
  if (mode_.load(std::memory_order_acquire) == Mode::kFresh) start();
  return mode_.load(std::memory_order_acquire) != Mode::kOff;
}

void Session::start() {
  ErrnoKeeper keeper;
  Mode fresh = Mode::kFresh;
  if (!mode_.compare_exchange_strong(fresh, Mode::kStarting, std::memory_order_acquire)) return;
  settings_ = read_settings();
  const bool usable = settings_.enabled && watch_process();
  mode_.store(usable ? Mode::kWaiting : Mode::kOff, std::memory_order_release);
}

constexpr std::uint64_t kCountedNs = 100'000'000;
constexpr std::uint32_t kManyAsked = 10'000;  // in that time

bool Session::look_for_agent() {
  if (mode_.load(std::memory_order_acquire) == Mode::kFresh) start();
  if (mode_.load(std::memory_order_acquire) != Mode::kWaiting) return false;
  // A process that asks a million times a second reads the clock at every 64th, one that asks now and then at each.
  const std::uint32_t asked = asked_.load(std::memory_order_relaxed);
  asked_.store(asked + 1, std::memory_order_relaxed);  // two threads may count one: it is no matter
  if ((asked & shared_.load(std::memory_order_relaxed)) != 0) return false;
  const std::uint64_t now = read_clock_ns(CLOCK_MONOTONIC_COARSE) + kSecondNs;  // the first try is due at once
  if (now - counted_ns_.load(std::memory_order_relaxed) >= kCountedNs) {
    counted_ns_.store(now, std::memory_order_relaxed);
    const bool many = asked - counted_.exchange(asked, std::memory_order_relaxed) > kManyAsked;
    shared_.store(many ? 63 : 0, std::memory_order_relaxed);
  }
  if (now - tried_ns_.load(std::memory_order_relaxed) < kSecondNs) return false;
  if (busy_.exchange(true, std::memory_order_acquire)) return false;
  ErrnoKeeper keeper;
  tried_ns_.store(now, std::memory_order_relaxed);
  Mode waiting = Mode::kWaiting;
  const bool connected = mode_.load(std::memory_order_acquire) == waiting && connect();
  if (connected) {
    checked_ns_.store(now_ns(), std::memory_order_relaxed);
    mode_.compare_exchange_strong(waiting, Mode::kRecording, std::memory_order_release);
  }
  busy_.store(false, std::memory_order_release);
  return connected;
}

bool Session::connect() {
  char frame[1536];
  const std::size_t bytes = build_ring_frame(settings_, getpid(), frame, sizeof(frame));
  const bool lost = memory_.address != nullptr && memory_.descriptor.get() < 0;  // the program closed it
  if (bytes == 0 || lost || !connection_.open(settings_.socket_path, settings_.agent_user)) return false;
  if (!ensure_ring()) {
    connection_.say_without(frame, bytes);
    stop_recording();
    return false;
  }
  const bool there = connection_.hand_over(frame, bytes, memory_.descriptor.get());
  agent_there_.store(there, std::memory_order_relaxed);
  return there;
}

bool Session::ensure_ring() {
  if (memory_.address != nullptr) return true;
  const RingShape shape{settings_.ring_slots};
  memory_ = create_ring_memory(shape.bytes());
  if (memory_.address == nullptr) return false;
  ring_ = RingWriter::format(memory_.address, shape, static_cast<std::uint32_t>(getpid()));
  new (&names_) NameTable(ring_.names(), shape.names);
  collector_status.copy_to(ring_.header());
  look_for_cuda();
  ++generation_;
  return true;
}

// CUDA works here and nobody has told us so: ranges measure the asking alone, and the agent must know.
void Session::look_for_cuda() {
  if (collector_status.injected.load(std::memory_order_relaxed)) return;
  std::uint32_t state = collector_status.cupti_state.load(std::memory_order_relaxed);
  if (state == record::kCuptiNotAsked && cupti::cuda_has_begun()) {
    state = settings_.cupti.enabled ? record::kCuptiNotInjected : record::kCuptiSwitchedOff;
    collector_status.cupti_state.store(state, std::memory_order_relaxed);
  }
  ring_.header().cupti_state.store(state, std::memory_order_relaxed);
}

bool Session::check_connection(std::uint64_t now) {
  if (busy_.exchange(true, std::memory_order_acquire)) return false;
  ErrnoKeeper keeper;
  checked_ns_.store(now, std::memory_order_relaxed);
  look_for_cuda();
  if (!connection_.alive()) {
    agent_there_.store(false, std::memory_order_relaxed);
    connect();
  }
  busy_.store(false, std::memory_order_release);
  return true;
}

void Session::close() {
  stop_recording();
  if (memory_.address == nullptr || ring_.header().pid != static_cast<std::uint32_t>(getpid())) return;
  look_for_cuda();  // a short process was not looked at since it connected
  ring_.header().closed.store(1, std::memory_order_release);
}

void Session::restart_after_fork() {
  ErrnoKeeper keeper;
  connection_.close();
  memory_.descriptor.close();
  if (memory_.address != nullptr) munmap(memory_.address, memory_.bytes);
  memory_ = {};
  ring_ = {};
  new (&names_) NameTable();
  agent_there_.store(false, std::memory_order_relaxed);
  tried_ns_.store(0, std::memory_order_relaxed);
  busy_.store(false, std::memory_order_relaxed);
  const Mode mode = mode_.load(std::memory_order_relaxed);
  if (mode == Mode::kRecording) mode_.store(Mode::kWaiting, std::memory_order_relaxed);
  if (mode == Mode::kStarting) mode_.store(Mode::kOff, std::memory_order_relaxed);
}

std::uint64_t Session::lost() const {
  if (memory_.address == nullptr) return 0;
  const record::RingHeader& header = ring_.header();
  return header.dropped.load(std::memory_order_relaxed) + header.untracked.load(std::memory_order_relaxed);
}

void Session::count_untracked() {
  ring_.header().untracked.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace trimtab::inject
