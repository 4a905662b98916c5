#pragma once

// A stage whose operators may be split in different ways, with the layout changes between them, and where wanted any
// operator recomputed: a dynamic program along the chain for each of a few prices of memory (Lagrange multipliers). Its
// paths know their exact time and memory, so the fastest that fits is a real stage; the same programs give a time that
// no way to run the stage beats. One walk from a begin serves all ends. One per search; not thread-safe.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
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
              std::int32_t devices, bool recompute)
      : tables_(tables), recompute_(recompute), reshards_(tables, options_) {
    for (const Split& split : space.splits(model, microbatch, devices)) {
      if (split.sharded != ShardedLevel::kNone) continue;
      for (const bool alternate : {false, true}) {
        if (alternate && !space.alternate_dimensions) continue;
        const std::int32_t setting = tables.setting(microbatch / split.dp, split.tp, alternate);
        if (setting >= 0) options_.push_back({setting, split.dp, split.tp, alternate});
      }
    }
    least_.assign(static_cast<std::size_t>(tables.operators()) + 1, 0);
    for (std::int32_t op = 0; op < tables.operators(); ++op) {
      double least = kInfinite;
      for (const OperatorSplit& option : options_) {
        const aceso::Row& measured = tables.row(option.setting, op);
        least = std::min(least, measured.forward + measured.backward);
      }
      least_[op + 1] = least_[op] + least;
    }
  }

  [[nodiscard]] bool empty() const { return options_.empty(); }
  [[nodiscard]] const std::vector<OperatorSplit>& options() const { return options_; }
  [[nodiscard]] const MixedResult& result(std::int32_t begin, std::int32_t end, const Place& place) {
    return row_until(begin, end, place).results[end - begin - 1];
  }
  // The operators' choices on the path of a price that ends in `state`.
  [[nodiscard]] std::vector<MixedChoice> path(std::int32_t begin, std::int32_t end, const Place& place, int price,
                                              int state) {
    const Row& row = row_until(begin, end, place);
    const std::size_t length = static_cast<std::size_t>(end - begin);
    auto at = static_cast<std::size_t>(state);
    std::vector<MixedChoice> choices(length);
    for (std::size_t i = length; i-- > 0;) {
      choices[i] = {static_cast<std::int16_t>(option_of(at)), recomputes(at)};
      if (i > 0) at = row.from[((i - 1) * kPrices.size() + static_cast<std::size_t>(price)) * states() + at];
    }
    return choices;
  }
  // Least times (us) before an operator, over all options: a floor of any stage.
  [[nodiscard]] const std::vector<double>& least() const { return least_; }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr double kUnmeasured = 1e15;  // us: a path over an operator that was not measured is none
  // us for a MiB of the stage's memory.
  static constexpr std::array<double, 12> kPrices{0, 0.01, 0.03, 0.1, 0.25, 0.6, 1.5, 3.5, 8, 20, 60, 250};

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
  Row& row_until(std::int32_t begin, std::int32_t end, const Place& place) {
    const std::uint64_t key = static_cast<std::uint64_t>(begin) << 32 | static_cast<std::uint64_t>(place.copies) << 2 |
                              (place.inter_node_input ? 2U : 0U) | (place.inter_node_output ? 1U : 0U);
    Row& row = rows_[key];
    if (row.end == 0) begin_row(row, begin, place);
    while (row.end < end) extend(row, place);
    return row;
  }
  void begin_row(Row& row, std::int32_t begin, const Place& place) {
    row.end = begin + 1;
    for (const double price : kPrices) {
      for (std::size_t state = 0; state < states(); ++state) {
        const aceso::Row& op = tables_.row(options_[option_of(state)].setting, begin);
        Label label;
        label.first = static_cast<std::int16_t>(option_of(state));
        label.time =
            op.forward * (recomputes(state) ? 2 : 1) + op.backward + tables_.transfer(op.input, place.inter_node_input);
        label.weight = op.weight;
        label.kept = op.input;
        if (!op.measured) label.time = kUnmeasured;
        label.cost = label.time + price * (op.weight * (tables_.state_multiple() + 1) + op.input * place.copies);
        row.labels.push_back(label);
      }
    }
    judge(row, place);
  }
  void extend(Row& row, const Place& place) {
    const std::int32_t op = row.end;
    const std::vector<double>& reshard = reshards_.of(op);
    const std::size_t count = states();
    // Price and operator fixed, the step's cost depends on the two states: least over the state before, then one
    // advance.
    std::vector<Label> next(row.labels.size());
    const std::size_t base = row.from.size();
    row.from.resize(base + row.labels.size());
    for (std::size_t p = 0; p < kPrices.size(); ++p) {
      const Label* const labels = &row.labels[p * count];
      for (std::size_t state = 0; state < count; ++state) {
        std::size_t best = 0;
        double least = kInfinite;
        for (std::size_t before = 0; before < count; ++before) {
          const aceso::Row& last = tables_.row(options_[option_of(before)].setting, op - 1);
          const bool saves = recomputes(before) && recomputes(state) && !tables_.keeps_output(op - 1);
          const double memory =
              saves ? 0 : last.activation * tables_.facts(op - 1).name.activation_factor * place.copies;
          const double cost = labels[before].cost + reshard[option_of(before) * options_.size() + option_of(state)] +
                              kPrices[p] * memory;
          if (cost < least) {
            least = cost;
            best = before;
          }
        }
        next[p * count + state] = advance(labels[best], op, best, state, kPrices[p], place.copies,
                                          reshard[option_of(best) * options_.size() + option_of(state)]);
        row.from[base + p * count + state] = static_cast<std::uint8_t>(best);
      }
    }
    row.labels.swap(next);
    ++row.end;
    judge(row, place);
  }
  [[nodiscard]] Label advance(const Label& from, std::int32_t op, std::size_t before, std::size_t state, double price,
                              std::int32_t copies, double reshard) const {
    const aceso::Row& last = tables_.row(options_[option_of(before)].setting, op - 1);
    const aceso::Row& next = tables_.row(options_[option_of(state)].setting, op);
    const double activation = last.activation * tables_.facts(op - 1).name.activation_factor;
    const bool saved = recomputes(before) && recomputes(state);
    const bool keeps = tables_.keeps_output(op - 1);
    Label label = from;
    label.forward_reserve = std::max(label.forward_reserve, last.forward_reserve);
    label.backward_reserve = std::max(label.backward_reserve, last.backward_reserve);
    label.run = saved ? from.run + activation : 0;
    label.peak = std::max(label.peak, label.run);
    if (saved && keeps) label.run = 0;
    const double kept = saved && !keeps ? 0 : activation;
    const double time =
        next.measured ? next.forward * (recomputes(state) ? 2 : 1) + next.backward + reshard : kUnmeasured;
    label.kept += kept;
    label.weight += next.weight;
    label.time += time;
    label.cost += time + price * (kept * copies + next.weight * (tables_.state_multiple() + 1));
    return label;
  }
  // What the paths that end here are worth as stages.
  void judge(Row& row, const Place& place) {
    const std::int32_t last = row.end - 1;
    const double limit = tables_.memory_limit();
    MixedResult result;
    // A cheaper path may begin with a split whose output takes longer to send: the bound, of use only where
    // recompute is free, takes the shortest.
    least_out_.assign(states(), kInfinite);
    for (std::size_t state = 0; recompute_ && state < states(); ++state) {
      for (const OperatorSplit& first : options_) {
        const std::int32_t setting = tables_.with_tp(options_[option_of(state)].setting, first.tp);
        const double out = tables_.transfer(tables_.row(setting, last).output, place.inter_node_output);
        least_out_[state] = std::min(least_out_[state], out);
      }
    }
    for (std::size_t p = 0; p < kPrices.size(); ++p) {
      double least_bound = kInfinite;
      for (std::size_t state = 0; state < states(); ++state) {
        const Label& label = row.labels[p * states() + state];
        const OperatorSplit& split = options_[option_of(state)];
        const aceso::Row& op = tables_.row(split.setting, last);
        const double activation = op.activation * tables_.facts(last).name.activation_factor;
        const double out =
            tables_.transfer(tables_.row(tables_.with_tp(split.setting, options_[label.first].tp), last).output,
                             place.inter_node_output);
        const double cost = label.cost + out + kPrices[p] * activation * place.copies;
        least_bound = std::min(least_bound, cost - out + std::min(out, least_out_[state]));
        const double memory = label.weight * tables_.state_multiple() + (label.kept + activation) * place.copies +
                              label.peak + std::max(label.forward_reserve + label.backward_reserve, label.weight);
        if (memory <= limit && label.time + out < std::min(result.time, kUnmeasured)) {
          result.time = label.time + out;
          result.price = static_cast<std::int8_t>(p);
          result.state = static_cast<std::int16_t>(state);
        }
      }
      result.floor = std::max(result.floor, least_bound - kPrices[p] * limit);
    }
    row.results.push_back(result);
  }

  const Tables& tables_;
  bool recompute_;
  std::vector<OperatorSplit> options_;
  std::vector<double> least_;
  std::unordered_map<std::uint64_t, Row> rows_;
  ReshardTimes reshards_;
  std::vector<double> least_out_;  // us by state, of the stage that is judged
};

}  // namespace trimtab::tuner::aceso
