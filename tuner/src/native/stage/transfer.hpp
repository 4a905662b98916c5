#pragma once

// What passes between two stages: the activations of a microbatch one way, their gradients the other. Pure.

#include "native/stage/operator_price.hpp"
#include "solvers/pipeline.hpp"

namespace trimtab::tuner {

// One stage's side: replica i begins at devices[i * tp * cp].
struct TransferSide {
  const std::int32_t* devices = nullptr;
  std::int32_t dp = 1;
  std::int32_t tp = 1;
  std::int32_t cp = 1;

  [[nodiscard]] std::int32_t first_device(std::int32_t replica) const { return devices[replica * tp * cp]; }
};

// One message from a replica to a replica.
struct Message {
  std::int32_t from = 0;  // replica
  std::int32_t to = 0;
  std::int32_t samples = 0;
  bool first_of_sender = false;
  bool first_of_receiver = false;
};

// Replica i holds samples [i * each, (i + 1) * each): walks the pairs whose ranges overlap, in order of samples.
template <typename Visit>
void for_each_message(std::int32_t from_dp, std::int32_t to_dp, std::int32_t microbatch, Visit&& visit) {
  const std::int32_t sent_each = microbatch / from_dp;
  const std::int32_t received_each = microbatch / to_dp;
  for (std::int32_t sample = 0; sample < microbatch;) {
    const std::int32_t i = sample / sent_each;
    const std::int32_t j = sample / received_each;
    const std::int32_t end = std::min((i + 1) * sent_each, (j + 1) * received_each);
    visit(Message{i, j, end - sample, sample % sent_each == 0, sample % received_each == 0});
    sample = end;
  }
}

// Milliseconds: the slowest rank's, whose messages to several peers add up. Every rank of a receiving replica gets
// `bytes_per_sample` of its samples: all, or its part of the sequence; a replica with fewer ranks than its receiver
// sends to several. The quality is the worst of the costs used. REQUIRES: both dp divide the microbatch.
[[nodiscard]] Value transfer_time(const CostTable::Tables& tables, const std::vector<std::int32_t>& node_of,
                                  const TransferSide& from, const TransferSide& to, double bytes_per_sample,
                                  std::int32_t microbatch);

// Parameters that operators of several stages share (an embedding and the head): their gradients are all-reduced over
// those stages when all of them have synchronized, before any of them runs its optimizer. Pure.

// What a reduction needs to know of a stage.
struct TiedStage {
  std::int32_t end = 0;  // one past its last operator
  std::int32_t tp = 1;
  std::int32_t node = 0;  // of its first device
};

// Appends the stages that hold one of the operators to `members`, ascending, without repeats.
void tied_members(const TiedParameters& tied, const std::vector<TiedStage>& stages, std::vector<std::int32_t>& members);
// group_size below 2 where one stage holds them all.
[[nodiscard]] CollectiveUse tied_use(const CostTable::Tables& tables, const TiedParameters& tied,
                                     const std::vector<TiedStage>& stages, const std::vector<std::int32_t>& members,
                                     std::size_t first_member);

// All of a model's, replacing what `ties` holds. Returns the worst quality of the costs used.
Quality tied_reductions(const CostTable::Tables& tables, const Calibration& calibration,
                        const std::vector<TiedStage>& stages, TiedReductions& ties);

}  // namespace trimtab::tuner
