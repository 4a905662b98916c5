#pragma once

// What a layer costs under a strategy, and what a pipeline of layers takes, as Galvatron's two published versions and
// the paper have it. Pure functions over a Profile.
//
//  v1     Hsword/Hetu tools/Galvatron, 2022: one expression for each degree, whole steps, no pipeline formula; counts
//  of
//         microbatches that need not be whole, by model and strategy; no recompute; all activations of a step are kept.
//  v2     PKU-DAIR/Hetu-Galvatron, 2023-12: 1F1B, recompute at half a forward, sharded optimizer and gradients by
//         default; synchronization beside filling (equation 9 with a tail); layout changes cost nothing in the sum.
//  paper  Galvatron-BMW, sections III and V, equations 2, 5 and 9: recompute at one forward with its own peak, layout
//         changes of the bytes that devices lack, nothing withheld.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "papers/galvatron/layer_strategy.hpp"
#include "papers/galvatron/profile.hpp"

namespace trimtab::tuner::galvatron {

enum class Variant : std::uint8_t { kV1, kV2, kPaper };

// A step and the stage in it that a layer belongs to.
struct Situation {
  std::int32_t batch = 1;
  std::int32_t microbatches = 1;
  std::int32_t stages = 1;
  std::int32_t stage = 0;
};

// One layer in one stage. v1: ms of a whole step, else of one microbatch.
struct LayerCost {
  double forward_ms = 0;
  double backward_ms = 0;  // without recompute
  double recompute_ms = 0;
  double exposed_ms = 0;  // communication that computing does not hide, synchronization left out
  double plain_ms = 0;    // all of it without synchronization; equals the sum of the four
  double sync_ms = 0;     // with synchronization, as the last microbatch has it
  double kept_mib = 0;    // O_f: activations from forward to backward, of all microbatches in flight
  double states_mib = 0;  // O_ms
  double peak_mib = 0;    // O_b: what its backward pass holds for a while
};

struct StageSum {
  double plain_ms = 0;
  double sync_ms = 0;
};

class Formulas {
 public:
  // Borrows the profile.
  Formulas(Variant variant, const Profile& profile) : variant_(variant), profile_(&profile) {}

  [[nodiscard]] Variant variant() const { return variant_; }
  [[nodiscard]] const Profile& profile() const { return *profile_; }

  // Whether the variant prices such a layer: its activations and links were measured, and its formula has it.
  [[nodiscard]] bool has(std::int32_t type, const LayerStrategy& strategy, std::int32_t stages) const;
  // Replicas that do not shard parameters keep whole optimizer states (`plain_replicas`) or share them (v2's default).
  // REQUIRES: has().
  [[nodiscard]] LayerCost layer(std::int32_t type, const LayerStrategy& strategy, const Situation& situation,
                                bool plain_replicas) const;
  // Ms that a layer of `type` waits for its input in another layout: v1 for a step, paper for a microbatch. 0 in v2.
  [[nodiscard]] double layout_change_ms(std::int32_t type, const LayerStrategy& from, const LayerStrategy& to,
                                        const Situation& situation) const;
  // Embedding, head and the process on a device of the stage.
  [[nodiscard]] double reserved_mib(const Situation& situation, bool plain_replicas) const;
  // v2 adds one layer's activations to a stage that recomputes; in the paper each layer has its own peak.
  [[nodiscard]] double recompute_reserve_mib(const Situation& situation) const;
  // What a device may hold: v2 withholds a fifth above 20 GiB.
  [[nodiscard]] double limit_mib() const;
  [[nodiscard]] double iteration_ms(std::span<const StageSum> stages, std::int32_t microbatches) const;
  // Microbatches that v1's rule takes, not always whole; nothing for the others, which take a plan's.
  [[nodiscard]] std::optional<double> own_microbatches(const LayerStrategy& strategy, std::int32_t batch,
                                                       std::int32_t stages) const;
  // Samples of a step that a stage keeps the activations of, on one replica, over those of the whole step (1F1B).
  [[nodiscard]] double in_flight_share(const LayerStrategy& strategy, const Situation& situation) const;

 private:
  struct Links {
    double replicas = 0;  // ms per MiB that a rank sends
    double tensor = 0;
  };

  [[nodiscard]] Links links(const LayerStrategy& strategy, std::int32_t stages) const;
  [[nodiscard]] LayerCost layer_v1(const LayerType& type, const LayerStrategy& strategy, const Situation& at) const;
  [[nodiscard]] LayerCost layer_v2(const LayerType& type, const LayerStrategy& strategy, const Situation& at,
                                   bool plain_replicas) const;
  [[nodiscard]] LayerCost layer_paper(const LayerType& type, const LayerStrategy& strategy, const Situation& at) const;
  [[nodiscard]] double reserved_v1(const Situation& at) const;
  [[nodiscard]] double reserved_v2(const Situation& at, bool plain_replicas) const;
  [[nodiscard]] double reserved_paper(const Situation& at) const;

  Variant variant_;
  const Profile* profile_;
};

// Computation of `computing` ms beside communication of `communicating` ms, each slowed by the same factor while both
// run (section V): the longer one's rest runs at full speed.
[[nodiscard]] double beside(double computing, double communicating, double slowdown);

// Sizes of `count` samples cut into chunks of equal size but the last, at most `chunks` of them.
[[nodiscard]] std::vector<std::int32_t> chunk_sizes(std::int32_t count, std::int32_t chunks);

// The part of a replica's samples that device `rank` of `devices` lacks when a layer laid out as `from` hands over to
// one laid out as `to`: the most of all ranks, in shares of the microbatch.
[[nodiscard]] double lacking_share(const LayerStrategy& from, const LayerStrategy& to, std::int32_t devices);

}  // namespace trimtab::tuner::galvatron
