#pragma once

// What single strategies can be told, and no other. Plain values.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab::tuner {

struct AcesoOptions {
  int max_hops = 7;             // primitives in a row before it backtracks
  bool use_heuristic_2 = true;  // false tries resources and primitives in random order (ablation)
};

struct H3tOptions {
  std::string solver = "exact";       // one of h3t_solvers()
  bool free_synchronization = false;  // then tries layers that do not synchronize; its bound ends there
};
// "exact", and the paper's own: "program", "greedy", "random".
[[nodiscard]] std::vector<std::string_view> h3t_solvers();

struct OasesOptions {
  // Most tensor-parallel degrees, each on operators in a row; the space has plans with more, so that nothing is proven.
  // 0 = any, anywhere.
  std::int32_t degrees = 0;
};

struct UnifiedOptions {
  // Prices every plan where there are at most so many ways to cut, place and split; 0 = never.
  double enumerated_ways = 6000;
  bool stage_program = true;  // solves stages again operator by operator; false to see what that is worth
};

}  // namespace trimtab::tuner
