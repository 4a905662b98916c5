#pragma once

// A job that was never run: its ranks' steps as a small, busy machine would make them. Seeded.

#include <cstdint>
#include <string>

#include "base/random.hpp"
#include "card/card_fold.hpp"

namespace trimtab::test {

enum class Fault { kNone, kSlowRank, kSlowData, kSmallMicrobatch, kRecomputed, kSlowLink };

struct MadeJob {
  std::uint64_t seed = 1;
  Fault fault = Fault::kNone;
  std::int32_t ranks = 2;
  std::int64_t steps = 100;
  std::int32_t faulty = 1;  // the slow rank
  double slower = 0.15;
  double data_share = 0.2;
  bool tells_stolen = true;
  double busy = 0.02;  // chance that other processes begin to take from a rank in a step
  std::string framework = "ddp";
  std::int32_t missing = -1;  // a rank that tells nothing
};

// Of these kinds at random: 2 to 4 ranks, 30 to 400 steps, a calm or a busy machine.
[[nodiscard]] MadeJob random_job(std::uint64_t seed, Fault fault);
[[nodiscard]] coordinator::CardFold folded(const MadeJob& job);
// Two ranks of steps of 100 ms, 8 samples and 8 x 1024 tokens, whose agents say this of their devices.
[[nodiscard]] coordinator::CardFold on_two_devices(const api::RankFacts& facts, const api::LiveRank& look);
[[nodiscard]] api::Card card_of(const MadeJob& job);
// "slow_rank 1"; "none" where there is no finding.
[[nodiscard]] std::string first_finding(const api::Card& card);

}  // namespace trimtab::test
