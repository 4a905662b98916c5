#pragma once

// Transformer layers of the paper's sizes (its table 2) on the paper's machines (appendix C.2), timed by arithmetic: no
// measurement. They are for comparing solvers with each other, not for predictions.

#include <string>
#include <vector>

#include "base/random.hpp"
#include "solvers/h3t/problem.hpp"

namespace trimtab::tuner::h3t::test {

struct Machine {
  std::string name;
  Fabric fabric = Fabric::kNvlink;
  double flops = 0;                  // a device computes so many in a second
  double gather_bytes_per_s = 0;     // that a device receives from the others
  double host_bytes_per_s = 0;       // between a device and its host
  double optimizer_bytes_per_s = 0;  // that the host's optimizer touches, a device's share
  std::int32_t devices = 8;
};

struct TransformerSize {
  std::string name;
  std::int32_t layers = 0;
  double hidden = 0, inner = 0, heads = 0;
};

[[nodiscard]] const std::vector<Machine>& machines();       // 8 x 2080 Ti, 8 x A100
[[nodiscard]] const std::vector<TransformerSize>& sizes();  // 1.8B, 6B, 13B
[[nodiscard]] const TransformerSize& hundred_billion();     // on 64 devices

// One layer with so many samples of 512 tokens on each device.
[[nodiscard]] LayerProfile analytic_layer(const Machine& machine, const TransformerSize& size, double samples);

// `count` of these, each number of each layer changed by up to `spread` either way.
[[nodiscard]] std::vector<LayerProfile> spread_layers(const LayerProfile& layer, std::int32_t count, double spread,
                                                      Random& random);

// A share of the way from the lowest peak (all switches on) to that of none.
[[nodiscard]] Bytes limit_at(std::span<const LayerProfile> layers, Fabric fabric, double share);

}  // namespace trimtab::tuner::h3t::test
