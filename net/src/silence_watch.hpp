#pragma once

// When a peer counts as gone. It is looked at every third of the limit: after the first look at which nothing had moved
// it is pinged, after the second it is given up, so that a silence ends after two to three thirds of the limit. What
// comes from it is a sign of life; so is what it takes, while something waits for it: on a slow link the answer to a
// ping stands behind that. What a frozen process' kernel takes is none for long, because its buffer fills. A plain
// value.

#include "base/clock.hpp"
#include "transport_progress.hpp"

namespace trimtab::net {

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
