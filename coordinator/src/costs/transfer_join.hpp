#pragma once

// A send's stamps and its receive's, joined: how long the transfer itself took. Pure; time comes in. One owner thread.
// Bounded: what does not find its other half is given up and counted.
//
// The two have no number in common, so they are found by time. Taken is a receive that began before the send did, as
// far as the clocks' bounds prove it, and ended with it, where one send alone of the same pair and size fits. The
// receiver then waited for the sender, and from the send's beginning on the bytes were on their way:
//   transfer = the receive's end - the send's beginning, where the clocks are near enough, else the send's own time,
// which is a hop less. A receiver that came after the send began found part of the bytes in NCCL's buffers, so neither
// of the two tells how long they were under way: that is no transfer.
// How far one clock may be ahead of another: StampClock (collective_join.hpp).

#include <memory>
#include <string>

#include "costs/collective_join.hpp"

namespace trimtab::coordinator {

struct TransferStamp {
  RankStamp stamp;         // of one of the two; its facts are the transfer's
  std::uint32_t peer = 0;  // the other, in the communicator
  std::shared_ptr<const std::string> fingerprint_json = {};

  [[nodiscard]] bool receives() const;
};

struct JoinedTransfer {
  std::int64_t bytes = 0;
  std::uint32_t channels = 0;
  bool between_nodes = false;
  std::int64_t transfer_ns = 0;
  CostSource::Beside beside = CostSource::Beside::kNotSaid;  // of both together
  std::shared_ptr<const std::string> fingerprint_json = {};  // the receiver's
};

struct TransferCounters {
  std::uint64_t joined = 0;
  std::uint64_t alone = 0;    // receives that waited for no send that is known, or for which several fit
  std::uint64_t unfit = 0;    // stamps that cannot be, or whose clock nobody has compared
  std::uint64_t dropped = 0;  // stamps that found no room
};

class TransferJoin {
 public:
  static constexpr std::size_t kMostPairs = 4096;
  static constexpr std::size_t kMostOfPair = 256;       // sends, and as many receives
  static constexpr std::size_t kMostStamps = 1U << 16;  // of all pairs together
  // How long a receive waits for the stamps of sends; agents send theirs every two seconds. A send stays as long again.
  static constexpr Nanoseconds kSettle = std::chrono::seconds(6);

  void add(TransferStamp transfer, Nanoseconds now);
  // Those whose other half has had time to come.
  [[nodiscard]] std::vector<JoinedTransfer> take(Nanoseconds now);

  [[nodiscard]] const TransferCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t pairs() const { return pairs_.size(); }
  [[nodiscard]] std::size_t stamps() const { return stamps_; }

 private:
  struct Key {
    std::uint64_t communicator = 0;
    std::uint32_t sender = 0;
    std::uint32_t receiver = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Waiting {
    TransferStamp transfer;
    Nanoseconds since{0};
  };
  struct Pair {
    std::deque<Waiting> sends;
    std::deque<Waiting> receives;
  };
  void pop_front(std::deque<Waiting>& side);
  [[nodiscard]] std::optional<JoinedTransfer> join(const TransferStamp& received, const std::deque<Waiting>& sends);

  TransferCounters counters_;
  std::map<Key, Pair> pairs_;
  std::size_t stamps_ = 0;
};

}  // namespace trimtab::coordinator
