#pragma once

// The record rings that training processes have handed over: drained a little and often, folded into costs. Loop thread
// only.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cost_batches.hpp"
#include "net/local_server.hpp"
#include "range_fold.hpp"
#include "ring_reader.hpp"
#include "step_timeline.hpp"

namespace trimtab::agent {

class RankRings final {
 public:
  // `clock` must outlive it.
  explicit RankRings(const Clock& clock) : clock_(clock) {}

  // Called within drain() when a process has completed the step that its epoch is pictured by.
  std::function<void(net::LocalPeerId, const StepPicture&)> on_picture;

  // Takes over `descriptor`. `origin` is where the costs belong.
  [[nodiscard]] Status attach(net::LocalPeerId peer, int descriptor, CostOrigin origin);
  // What the process runs in `epoch`; `now` where it does already.
  void set_context(net::LocalPeerId peer, std::uint64_t epoch, const FoldContext& context, bool now);
  // The connection has ended: what is left is drained, then the ring goes.
  void producer_ended(net::LocalPeerId peer);

  void drain();
  // What was folded since the last call.
  void take(CostCollection& into);

  struct Counters {
    std::uint64_t records = 0;
    std::uint64_t skipped = 0;
    std::uint64_t malformed = 0;
    std::uint64_t dropped = 0;  // by the producers
    std::uint64_t names_dropped = 0;
    std::uint64_t untracked = 0;
    std::uint64_t broken_rings = 0;
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t size() const { return rings_.size(); }

 private:
  struct Ring {
    std::unique_ptr<RingReader> reader;
    std::unique_ptr<RangeFold> fold;
    StepTimeline timeline;
    CostOrigin origin;
    bool gone = false;
  };
  void drain(net::LocalPeerId peer, Ring& ring);
  void collect(Ring& ring);

  const Clock& clock_;
  std::map<net::LocalPeerId, Ring> rings_;
  CostCollection collected_;  // of rings that have gone
  Counters counters_;
};

}  // namespace trimtab::agent
