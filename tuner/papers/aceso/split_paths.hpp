#pragma once

// A stage whose operators are split one by one, with the layout changes between them; what is recomputed follows by the
// published rule. A walk from an end back over all begins keeps, for each layout, the labels that no other beats in
// both time and memory (so many of them at most): near the fastest stage, not proven. One per search; not thread-safe.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "papers/aceso/recompute_rule.hpp"
#include "papers/aceso/recompute_table.hpp"
#include "papers/aceso/stage_parts.hpp"

namespace trimtab::tuner::aceso {

class SplitPaths {
 public:
  // `options` are the ways to split an operator over the stage's devices. All must outlive this.
  SplitPaths(const Tables& tables, const Repetition& repetition, const std::vector<OperatorSplit>& options)
      : tables_(tables),
        repetition_(repetition),
        options_(options),
        kept_(kKept),
        by_rule_(kByRule),
        rule_(tables),
        reshards_(tables, options) {
    // Where the dimension says nothing of the layout, both are ways of one layout.
    for (const OperatorSplit& option : options) {
      const std::int32_t plain = tables.setting_of(option.setting, false);
      const bool blends = option.alternate && plain >= 0 && tables.blend(plain) != plain;
      layout_of_.push_back(blends ? layout_of_.back() : layouts_++);
    }
  }

  // How many labels a layout keeps from now on; what was found with another number is forgotten.
  void keep(std::size_t labels) {
    if (labels == kept_) return;
    kept_ = labels;
    by_rule_ = std::max(kByRule / 2, labels / 4);
    rows_.clear();
  }
  // us of the fastest stage that fits; infinite where none is found.
  [[nodiscard]] double time(std::int32_t begin, std::int32_t end, const Place& place) {
    const std::int32_t by = shift(begin, end);
    return result(begin + by, end + by, place).time;
  }
  // Its operators' options; empty where none is found.
  [[nodiscard]] std::vector<std::int16_t> path(std::int32_t begin, std::int32_t end, const Place& place) {
    const std::int32_t by = shift(begin, end);
    const Result& found = result(begin + by, end + by, place);
    path_.clear();
    if (found.node >= 0) trace(row_until(begin + by, end + by, place.copies), found.node);
    return path_;
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr double kForbidden = kForbiddenMs * 1000;  // us of a layout change that nobody has measured
  static constexpr std::size_t kKept = 128;
  static constexpr std::size_t kByRule = 16;  // labels for which the rule of recompute is tried, at least
  static constexpr std::size_t kPlaces = 4;   // neighbours on the same node or another
  static bool same(const Row& a, const Row& b) {
    return a.forward == b.forward && a.backward == b.backward && a.weight == b.weight && a.activation == b.activation &&
           a.forward_reserve == b.forward_reserve && a.backward_reserve == b.backward_reserve && a.input == b.input &&
           a.output == b.output;
  }

  struct Label {  // one way to run the operators from some begin to the end
    double time = 0, weight = 0, kept = 0;
    double forward_reserve = 0, backward_reserve = 0;  // of all but the last operator
    double memory = 0;                                 // MiB, without the stage's input
    std::int32_t node = 0;
    std::int16_t first = 0, last = 0;  // options
  };
  struct Node {
    std::int32_t next;
    std::int16_t option;
  };
  struct Extension {  // a label with one more operator before it
    double time, memory;
    std::int32_t label;
    std::int16_t option;
  };
  struct Ending {  // what a label is worth as a stage
    double time, memory;
    std::int32_t node;
    std::int16_t first, last;
  };
  struct Result {
    double time = -1;  // us; negative: not judged yet
    std::int32_t node = -1;
  };
  struct Row {
    std::int32_t end = 0, begin = 0;         // labels stand at this begin
    std::vector<std::vector<Label>> labels;  // by layout
    std::vector<Node> nodes;
    std::vector<Ending> endings;
    std::vector<std::size_t> endings_before;  // by length: endings of shorter stages
    std::vector<Result> results;              // by length - 1, places of its neighbours
  };

  Row& row_until(std::int32_t begin, std::int32_t end, std::int32_t copies) {
    Row& row = rows_[static_cast<std::uint64_t>(end) << 32 | static_cast<std::uint32_t>(copies)];
    if (row.end == 0) {
      row.end = end;
      begin_row(row, copies);
    }
    while (row.begin > begin) extend(row, copies);
    return row;
  }
  void begin_row(Row& row, std::int32_t copies) {
    const std::int32_t op = row.end - 1;
    row.begin = op;
    row.labels.resize(static_cast<std::size_t>(layouts_));
    row.endings_before.push_back(0);
    for (std::size_t option = 0; option < options_.size(); ++option) {
      const aceso::Row& last = tables_.row(options_[option].setting, op);
      if (!last.measured) continue;
      Label label;
      label.time = last.forward + last.backward;
      label.weight = last.weight;
      label.kept = last.activation * tables_.facts(op).name.activation_factor;
      label.memory = memory(label, copies);
      label.first = label.last = static_cast<std::int16_t>(option);
      label.node = static_cast<std::int32_t>(row.nodes.size());
      row.nodes.push_back({-1, label.last});
      row.labels[layout_of_[option]].push_back(label);
    }
    note_endings(row);
  }
  void extend(Row& row, std::int32_t copies) {
    const std::int32_t op = --row.begin;
    const std::vector<double>& reshard = reshards_.of(op + 1);
    labels_.clear();
    for (std::vector<Label>& labels : row.labels) {
      labels_.insert(labels_.end(), labels.begin(), labels.end());
      labels.clear();
    }
    const double factor = tables_.facts(op).name.activation_factor;
    for (std::int32_t layout = 0; layout < layouts_; ++layout) {
      extensions_.clear();
      for (std::size_t option = 0; option < options_.size(); ++option) {
        if (layout_of_[option] != layout) continue;
        const aceso::Row& first = tables_.row(options_[option].setting, op);
        const bool repeated = option > 0 && layout_of_[option - 1] == layout &&
                              same(first, tables_.row(options_[option - 1].setting, op));
        if (!first.measured || repeated) continue;
        const double added = first.weight * tables_.state_multiple() + first.activation * factor * copies;
        for (std::size_t i = 0; i < labels_.size(); ++i) {
          const Label& label = labels_[i];
          const double change = reshard[option * options_.size() + static_cast<std::size_t>(label.first)];
          if (change >= kForbidden) continue;
          const double reserve_before = std::max(label.forward_reserve + label.backward_reserve, label.weight);
          const double reserve = std::max(std::max(label.forward_reserve, first.forward_reserve) +
                                              std::max(label.backward_reserve, first.backward_reserve),
                                          label.weight + first.weight);
          extensions_.push_back({label.time + change + first.forward + first.backward,
                                 label.memory + added + reserve - reserve_before, static_cast<std::int32_t>(i),
                                 static_cast<std::int16_t>(option)});
        }
      }
      prune(extensions_);
      for (const Extension& extension : extensions_) {
        const aceso::Row& first = tables_.row(options_[extension.option].setting, op);
        Label label = labels_[extension.label];
        label.time = extension.time;
        label.weight += first.weight;
        label.kept += first.activation * factor;
        label.forward_reserve = std::max(label.forward_reserve, first.forward_reserve);
        label.backward_reserve = std::max(label.backward_reserve, first.backward_reserve);
        label.memory = memory(label, copies);
        label.first = extension.option;
        row.nodes.push_back({label.node, extension.option});
        label.node = static_cast<std::int32_t>(row.nodes.size()) - 1;
        row.labels[layout].push_back(label);
      }
    }
    note_endings(row);
  }
  void note_endings(Row& row) {
    for (const std::vector<Label>& labels : row.labels) {
      for (const Label& label : labels) {
        row.endings.push_back({label.time, label.memory, label.node, label.first, label.last});
      }
    }
    row.endings_before.push_back(row.endings.size());
    row.results.resize(row.results.size() + kPlaces);
  }
  [[nodiscard]] double memory(const Label& label, std::int32_t copies) const {
    return label.weight * tables_.state_multiple() + label.kept * copies +
           std::max(label.forward_reserve + label.backward_reserve, label.weight);
  }
  // Those that are beaten in time and memory go; of too many, those stay that lie evenly from the fastest to the
  // smallest.
  void prune(std::vector<Extension>& extensions) const {
    std::sort(extensions.begin(), extensions.end(), [](const Extension& a, const Extension& b) {
      return a.time != b.time ? a.time < b.time : a.memory < b.memory;
    });
    double least = kInfinite;
    std::erase_if(extensions, [&least](const Extension& one) {
      if (one.memory >= least) return true;
      least = one.memory;
      return false;
    });
    if (extensions.size() <= kept_) return;
    for (std::size_t i = 0; i < kept_; ++i) extensions[i] = extensions[i * (extensions.size() - 1) / (kept_ - 1)];
    extensions.resize(kept_);
  }
  const Result& result(std::int32_t begin, std::int32_t end, const Place& place) {
    Row& row = row_until(begin, end, place.copies);
    const std::size_t where = (place.inter_node_input ? 2U : 0U) + (place.inter_node_output ? 1U : 0U);
    Result& known = row.results[static_cast<std::size_t>(end - begin - 1) * kPlaces + where];
    if (known.time < 0) known = judge(row, begin, place);
    return known;
  }
  // The fastest way that fits without recompute, or with what the rule takes.
  [[nodiscard]] Result judge(const Row& row, std::int32_t begin, const Place& place) {
    const auto length = static_cast<std::size_t>(row.end - begin);
    const double limit = tables_.memory_limit() - tables_.headroom();
    Result result{kInfinite, -1};
    endings_.clear();
    for (std::size_t i = row.endings_before[length - 1]; i < row.endings_before[length]; ++i) {
      Ending ending = row.endings[i];
      const OperatorSplit& first = options_[ending.first];
      const double input = tables_.row(first.setting, begin).input;
      const std::int32_t sends = tables_.with_tp(options_[ending.last].setting, first.tp);
      ending.time += tables_.transfer(input, place.inter_node_input) +
                     tables_.transfer(tables_.row(sends, row.end - 1).output, place.inter_node_output);
      ending.memory += input * place.copies;
      if (ending.memory > limit) {
        endings_.push_back(ending);
      } else if (ending.time < result.time) {
        result = {ending.time, ending.node};
      }
    }
    judge_by_rule(row, begin, place.copies, result);
    return result;
  }
  void judge_by_rule(const Row& row, std::int32_t begin, std::int32_t copies, Result& result) {
    std::erase_if(endings_, [&result](const Ending& ending) { return ending.time >= result.time; });
    std::sort(endings_.begin(), endings_.end(), [](const Ending& a, const Ending& b) { return a.time < b.time; });
    const std::size_t tried = std::min(endings_.size(), by_rule_);
    for (std::size_t i = 0; i < tried; ++i) {
      const Ending& ending = endings_[tried == 1 ? 0 : i * (endings_.size() - 1) / (tried - 1)];
      if (ending.time >= result.time) break;
      trace(row, ending.node);
      const Saved saved =
          rule_.derive(begin, splits_, copies, ending.memory + tables_.headroom(), tables_.memory_limit(), flags_);
      if (ending.memory - saved.saved * copies + saved.peak > tables_.memory_limit()) continue;
      double time = ending.time;
      for (std::size_t k = 0; k < flags_.size(); ++k) {
        if (flags_[k] != 0) time += tables_.row(splits_[k].setting, begin + static_cast<std::int32_t>(k)).forward;
      }
      if (time < result.time) result = {time, ending.node};
    }
  }
  void trace(const Row& row, std::int32_t node) {
    path_.clear();
    splits_.clear();
    for (; node >= 0; node = row.nodes[node].next) {
      path_.push_back(row.nodes[node].option);
      splits_.push_back(options_[row.nodes[node].option]);
    }
  }
  // How far a stage may be moved to where the same operators come again.
  [[nodiscard]] std::int32_t shift(std::int32_t begin, std::int32_t end) const {
    const std::int32_t region_end = repetition_.region_end[begin];
    if (end > region_end) return 0;
    const std::int32_t period = repetition_.period[begin];
    return (region_end - end) / period * period;
  }

  const Tables& tables_;
  const Repetition& repetition_;
  const std::vector<OperatorSplit>& options_;
  std::size_t kept_, by_rule_;
  std::vector<std::int32_t> layout_of_;  // by option
  std::int32_t layouts_ = 0;
  RecomputeRule rule_;
  std::unordered_map<std::uint64_t, Row> rows_;
  ReshardTimes reshards_;
  std::vector<Label> labels_;
  std::vector<Extension> extensions_;
  std::vector<Ending> endings_;
  std::vector<std::int16_t> path_;
  std::vector<OperatorSplit> splits_;
  std::vector<std::uint8_t> flags_;
};

}  // namespace trimtab::tuner::aceso
