#pragma once

// Seconds of single kernels on one device, from what its data sheet says and a few constants. Pure.

#include "estimates/constants.hpp"
#include "estimates/hardware.hpp"
#include "estimates/uniform_plan.hpp"

namespace trimtab::estimates {

class Kernels {
 public:
  Kernels(const Gpu& gpu, const Constants& constants, bool newest_attention);

  // [rows, depth] x [depth, columns], `count` of them in one launch. Bounded by the products, in whole waves of tiles,
  // or by the memory.
  [[nodiscard]] double product(double rows, double depth, double columns, Precision precision, double count = 1) const;
  // What communication beside one product adds to the product's seconds.
  [[nodiscard]] double beside(double communication, double product) const;
  // One sample's attention over `heads` heads of this device: `queries` tokens see `keys` tokens, half of them if
  // causal.
  [[nodiscard]] double fused_attention(double heads, double head_dim, double queries, double keys, bool backward) const;
  // The same as separate kernels: scores are written to memory. Softmax with mask and scale is one kernel, dropout
  // another.
  [[nodiscard]] double plain_attention(double heads, double head_dim, double queries, double keys, bool backward) const;
  // Kernels that only move memory.
  [[nodiscard]] double moved(double bytes) const { return bytes / (gpu_.memory_bandwidth * constants_.memory_share); }

 private:
  [[nodiscard]] double peak(Precision precision) const;

  const Gpu& gpu_;
  const Constants& constants_;
  bool newest_attention_;
};

}  // namespace trimtab::estimates
