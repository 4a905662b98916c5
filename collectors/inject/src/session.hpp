#pragma once

// One process's connection to its node's agent: off, waiting for an agent, or recording into a ring that an agent has.
// No threads of its own: the application's threads and CUPTI's flush thread, in passing, look for the agent at most
// once a second, one at a time. Any thread may call any method except where noted. Nothing blocks; errno is preserved.

#include <atomic>
#include <cstdint>

#include "agent_connection.hpp"
#include "clock.hpp"
#include "name_table.hpp"
#include "ring_writer.hpp"
#include "settings.hpp"

namespace trimtab::inject {

enum class Mode : int { kFresh, kStarting, kOff, kWaiting, kRecording };

class Session {
 public:
  constexpr Session() = default;

  // The gate in front of everything. True when a ring is there to write to.
  bool recording() {
    const Mode mode = mode_.load(std::memory_order_acquire);
    if (mode == Mode::kRecording) [[likely]]
      return true;
    if (mode == Mode::kOff) return false;
    return look_for_agent();
  }
  // The same without looking for an agent.
  [[nodiscard]] bool connected() const { return mode_.load(std::memory_order_acquire) == Mode::kRecording; }
  // False when the environment says no: nothing will ever be recorded.
  bool wanted();
  // REQUIRES: wanted().
  [[nodiscard]] const Settings& settings() const { return settings_; }
  // A thread is looking for the agent.
  [[nodiscard]] bool connecting() const { return busy_.load(std::memory_order_acquire); }
  // Whether the ring has a reader, as of the last look.
  [[nodiscard]] bool agent_there() const { return agent_there_.load(std::memory_order_relaxed); }

  // REQUIRES for the rest: recording().
  // Hands the ring to a new agent when the old one has gone. Call it with the time at hand; true when it took time.
  bool keep_connected(std::uint64_t now) {
    if (now - checked_ns_.load(std::memory_order_relaxed) < kSecondNs) [[likely]]
      return false;
    return check_connection(now);
  }
  [[nodiscard]] const RingWriter& ring() const { return ring_; }
  [[nodiscard]] RingNames names() { return {&names_, generation_}; }

  // Ends recording for good; the ring is marked closed, and its memory stays for threads that are still running.
  void close();
  void stop_recording() { mode_.store(Mode::kOff, std::memory_order_release); }
  // In a forked child, before anything else of the library runs there.
  void restart_after_fork();

  [[nodiscard]] std::uint64_t lost() const;
  void count_untracked();

 private:
  bool look_for_agent();
  void start();
  bool connect();
  bool check_connection(std::uint64_t now);
  bool ensure_ring();
  void look_for_cuda();

  std::atomic<Mode> mode_{Mode::kFresh};
  std::atomic<bool> busy_{false};  // one thread looks for the agent
  std::atomic<bool> agent_there_{false};
  std::atomic<std::uint64_t> tried_ns_{0};    // coarse monotonic, while waiting
  std::atomic<std::uint32_t> asked_{0};       // how often, while waiting
  std::atomic<std::uint32_t> counted_{0};     // and how often it was when that was last looked at
  std::atomic<std::uint64_t> counted_ns_{0};  // coarse monotonic
  std::atomic<std::uint32_t> shared_{0};      // so many asks more share a clock's reading: 2^n - 1
  std::atomic<std::uint64_t> checked_ns_{0};  // real time, while recording
  Settings settings_;
  // Written by the thread that holds busy_, before kRecording is stored; constant after that, until a fork.
  RingMemory memory_;
  RingWriter ring_;
  NameTable names_;
  std::uint32_t generation_ = 0;
  AgentConnection connection_;
};

}  // namespace trimtab::inject
