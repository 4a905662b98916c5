#pragma once

// A stage whose operators may be split in different ways, with the layout changes between them, and where wanted any
// operator recomputed: a dynamic program along the chain for each of a few prices of memory (Lagrange multipliers). Its
// paths know their exact time and memory, so the fastest that fits is a real stage; the same programs give a time that
// no way to run the stage beats. One walk from a begin serves all ends. One per search; not thread-safe.

#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "papers/aceso/stage_parts.hpp"
#include "plan/plan_space.hpp"

namespace trimtab::tuner::aceso {

struct MixedChoice {
  std::int16_t option = 0;  // of the device count
  bool recompute = false;
};

struct MixedResult {
  double time = std::numeric_limits<double>::infinity();  // us; infinite where no path fits
  double floor = 0;                                       // us; no way to run the stage takes less
  std::int8_t price = -1;                                 // which price's path it is
  std::int16_t state = -1;
};

class MixedStages {
 public:
  // Splits of `devices` devices at one microbatch size; `alternate`: both dimensions. All must outlive this.
  MixedStages(const Tables& tables, const Model& model, const PlanSpace& space, std::int32_t microbatch,
              std::int32_t devices, bool recompute);

  [[nodiscard]] bool empty() const { return options_.empty(); }
  [[nodiscard]] const std::vector<OperatorSplit>& options() const { return options_; }
  [[nodiscard]] const MixedResult& result(std::int32_t begin, std::int32_t end, const Place& place);
  // The operators' choices on the path of a price that ends in `state`.
  [[nodiscard]] std::vector<MixedChoice> path(std::int32_t begin, std::int32_t end, const Place& place, int price,
                                              int state);
  // Least times (us) before an operator, over all options: a floor of any stage.
  [[nodiscard]] const std::vector<double>& least() const { return least_; }

 private:
  struct Label {
    double cost = 0;  // time and priced memory
    double time = 0;
    double weight = 0, kept = 0;                       // MiB; without the last operator's activation
    double forward_reserve = 0, backward_reserve = 0;  // of all but the last operator
    double run = 0, peak = 0;                          // of recomputed activations
    std::int16_t first = 0;                            // the first operator's option
  };
  struct Row {
    std::int32_t end = 0;              // labels stand at this end
    std::vector<Label> labels;         // by price, state
    std::vector<std::uint8_t> from;    // by operator after the first, price, state: the state before
    std::vector<MixedResult> results;  // by length - 1
  };

  [[nodiscard]] std::size_t states() const { return options_.size() * (recompute_ ? 2 : 1); }
  [[nodiscard]] std::size_t option_of(std::size_t state) const { return recompute_ ? state / 2 : state; }
  [[nodiscard]] bool recomputes(std::size_t state) const { return recompute_ && state % 2 == 1; }
  Row& row_until(std::int32_t begin, std::int32_t end, const Place& place);
  void begin_row(Row& row, std::int32_t begin, const Place& place);
  void extend(Row& row, const Place& place);
  [[nodiscard]] Label advance(const Label& from, std::int32_t op, std::size_t before, std::size_t state, double price,
                              std::int32_t copies, double reshard) const;
  void judge(Row& row, const Place& place);
  const std::vector<double>& reshards(std::int32_t op);

  const Tables& tables_;
  bool recompute_;
  std::vector<OperatorSplit> options_;
  std::vector<double> least_;
  std::unordered_map<std::uint64_t, Row> rows_;
  std::unordered_map<std::uint64_t, std::vector<double>> reshards_;  // by kinds of two neighbours: us by options
  std::vector<double> least_out_;                                    // us by state, of the stage that is judged
};

}  // namespace trimtab::tuner::aceso
