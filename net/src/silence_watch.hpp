#pragma once

// When a peer counts as gone. It is looked at every third of the limit: after the first look at which nothing had moved
// it is pinged, after the second it is given up, so that a silence ends after two to three thirds of the limit. What
// comes from it is a sign of life; so is what it takes, while something waits for it: on a slow link the answer to a
// ping stands behind that. What a frozen process' kernel takes is none for long, because its buffer fills. A plain
// value.

#include <cstdint>

#include "base/clock.hpp"

namespace trimtab::net {

// How far a TCP connection has come, by the kernel's own account (TCP_INFO): a frame that takes a minute on a slow link
// is no silence, although nobody has read it yet.
struct TransportProgress {
  std::uint64_t acknowledged = 0;  // bytes that the other side's kernel has taken
  std::uint64_t received = 0;      // bytes that have come, read by us or not
  std::uint64_t waiting = 0;       // bytes that our kernel holds until they are acknowledged, sent or not
};

// Zeros where the kernel does not say (some sandboxes' do not): then only what is read counts as a sign of life.
[[nodiscard]] TransportProgress transport_progress(int socket);

class SilenceWatch {
 public:
  enum class Verdict { kAlive, kAsk, kGone };

  [[nodiscard]] static Nanoseconds period(Nanoseconds limit) { return limit / 3; }

  [[nodiscard]] Verdict look(const TransportProgress& now) {
    const bool taken = now.waiting > 0 && now.acknowledged != last_.acknowledged;
    const bool moved = taken || now.received != last_.received;
    last_ = now;
    silent_looks_ = moved ? 0 : silent_looks_ + 1;
    if (silent_looks_ == 0) return Verdict::kAlive;
    return silent_looks_ == 1 ? Verdict::kAsk : Verdict::kGone;
  }

 private:
  TransportProgress last_;
  int silent_looks_ = 0;
};

}  // namespace trimtab::net
