#pragma once

// A stage whose operators are split one by one, with the layout changes between them; what is recomputed follows by the
// published rule. A walk from an end back over all begins keeps, for each layout, the ways that no other beats in both
// time and memory (so many of them at most): near the fastest stage, not proven. One per search; not thread-safe.

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "papers/aceso/recompute_rule.hpp"
#include "papers/aceso/repetition.hpp"
#include "papers/aceso/stage_parts.hpp"

namespace trimtab::tuner::aceso {

class SplitPaths {
 public:
  // `options` are the ways to split an operator over the stage's devices. All must outlive this.
  SplitPaths(const Tables& tables, const Repetition& repetition, const std::vector<OperatorSplit>& options);

  // How many ways a layout keeps from now on; what was found with another number is forgotten.
  void keep(std::size_t ways);
  // us of the fastest stage that fits; infinite where none is found.
  [[nodiscard]] double time(std::int32_t begin, std::int32_t end, const Place& place);
  // Its operators' options; empty where none is found.
  [[nodiscard]] std::vector<std::int16_t> path(std::int32_t begin, std::int32_t end, const Place& place);

 private:
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
  struct Way {  // a label with one more operator before it
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

  Row& row_until(std::int32_t begin, std::int32_t end, std::int32_t copies);
  void begin_row(Row& row, std::int32_t copies);
  void extend(Row& row, std::int32_t copies);
  void note_endings(Row& row);
  [[nodiscard]] double memory(const Label& label, std::int32_t copies) const;
  void prune(std::vector<Way>& ways) const;
  const Result& result(std::int32_t begin, std::int32_t end, const Place& place);
  [[nodiscard]] Result judge(const Row& row, std::int32_t begin, const Place& place);
  void judge_by_rule(const Row& row, std::int32_t begin, std::int32_t copies, Result& result);
  void trace(const Row& row, std::int32_t node);
  const std::vector<double>& reshards(std::int32_t op);
  // How far a stage may be moved to where the same operators come again.
  [[nodiscard]] std::int32_t shift(std::int32_t begin, std::int32_t end) const;

  const Tables& tables_;
  const Repetition& repetition_;
  const std::vector<OperatorSplit>& options_;
  std::size_t kept_, by_rule_;
  std::vector<std::int32_t> layout_of_;  // by option
  std::int32_t layouts_ = 0;
  RecomputeRule rule_;
  std::unordered_map<std::uint64_t, Row> rows_;
  std::unordered_map<std::uint64_t, std::vector<double>> reshards_;  // by kinds of two neighbours: us by options
  std::vector<Label> labels_;
  std::vector<Way> ways_;
  std::vector<Ending> endings_;
  std::vector<std::int16_t> path_;
  std::vector<OperatorSplit> splits_;
  std::vector<std::uint8_t> flags_;
};

}  // namespace trimtab::tuner::aceso
