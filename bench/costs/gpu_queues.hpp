#pragma once

// Ranks with GPUs, kernel by kernel: a host that issues kernels into a queue of limited length, and a device that runs
// what is queued, one kernel after the other. It knows nothing of cost models, and shares nothing with them. Pure.
//
// A transfer arrives so long after its sender's kernels before it have ended. A receive is a kernel that ends no
// sooner. Neither lets a host wait, but a full queue and `kSynchronize` do.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace trimtab::bench {

struct QueuedItem {
  enum class Kind : std::uint8_t { kKernel, kSend, kReceive, kSynchronize, kMark };
  Kind kind = Kind::kKernel;
  double host_us = 0;    // to issue it
  double device_us = 0;  // of a kernel; of a send: until it has arrived
  std::int64_t message = 0;
};

struct RankTimes {
  std::vector<double> host_marks;    // when the host came to each kMark
  std::vector<double> device_marks;  // when all that was queued before had ended
  double end_us = 0;                 // of both
};

class GpuQueues {
 public:
  static constexpr std::size_t kQueued = 1024;  // kernels

  // All ranks' programs at once. REQUIRES: every receive has a send, and no two ranks wait for each other.
  [[nodiscard]] static std::vector<RankTimes> run(const std::vector<std::vector<QueuedItem>>& programs) {
    GpuQueues queues(programs);
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank& rank : queues.ranks_) {
        while (queues.step(rank)) moved = true;
      }
    }
    std::vector<RankTimes> times;
    for (Rank& rank : queues.ranks_) {
      rank.times.end_us = rank.next == rank.program->size() ? std::max(rank.host, rank.device)
                                                            : std::numeric_limits<double>::quiet_NaN();
      times.push_back(std::move(rank.times));
    }
    return times;
  }

 private:
  struct Rank {
    const std::vector<QueuedItem>* program = nullptr;
    std::size_t next = 0;
    double host = 0;
    double device = 0;
    std::deque<double> ends;  // of queued kernels
    RankTimes times;
  };

  explicit GpuQueues(const std::vector<std::vector<QueuedItem>>& programs) : ranks_(programs.size()) {
    for (std::size_t r = 0; r < programs.size(); ++r) ranks_[r].program = &programs[r];
  }

  bool step(Rank& rank) {
    if (rank.next == rank.program->size()) return false;
    const QueuedItem& item = (*rank.program)[rank.next];
    double ready = 0;
    if (item.kind == QueuedItem::Kind::kReceive) {
      const auto arrival = arrivals_.find(item.message);
      if (arrival == arrivals_.end()) return false;
      ready = arrival->second;
    }
    ++rank.next;
    rank.host += item.host_us;
    switch (item.kind) {
      case QueuedItem::Kind::kKernel:
        queue(rank, 0, item.device_us);
        break;
      case QueuedItem::Kind::kReceive:
        queue(rank, ready, 0);
        break;
      case QueuedItem::Kind::kSend:
        queue(rank, 0, 0);
        arrivals_[item.message] = rank.device + item.device_us;
        break;
      case QueuedItem::Kind::kSynchronize:
        rank.host = std::max(rank.host, rank.device);
        break;
      case QueuedItem::Kind::kMark:
        rank.times.host_marks.push_back(rank.host);
        rank.times.device_marks.push_back(std::max(rank.host, rank.device));
        break;
    }
    return true;
  }

  static void queue(Rank& rank, double ready, double length) {
    while (!rank.ends.empty() && rank.ends.front() <= rank.host) rank.ends.pop_front();
    if (rank.ends.size() >= kQueued) {
      rank.host = rank.ends.front();
      rank.ends.pop_front();
    }
    rank.device = std::max({rank.device, rank.host, ready}) + length;
    rank.ends.push_back(rank.device);
  }

  std::vector<Rank> ranks_;
  std::map<std::int64_t, double> arrivals_;
};

}  // namespace trimtab::bench
