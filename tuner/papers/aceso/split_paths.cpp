#include "papers/aceso/split_paths.hpp"

#include <algorithm>

namespace trimtab::tuner::aceso {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kForbidden = kForbiddenMs * 1000;  // us of a layout change that nobody has measured
constexpr std::size_t kKept = 128;
constexpr std::size_t kByRule = 16;  // ways for which the rule of recompute is tried, at least
constexpr std::size_t kPlaces = 4;   // neighbours on the same node or another

bool same(const Row& a, const Row& b) {
  return a.forward == b.forward && a.backward == b.backward && a.weight == b.weight && a.activation == b.activation &&
         a.forward_reserve == b.forward_reserve && a.backward_reserve == b.backward_reserve && a.input == b.input &&
         a.output == b.output;
}

}  // namespace

SplitPaths::SplitPaths(const Tables& tables, const Repetition& repetition, const std::vector<OperatorSplit>& options)
    : tables_(tables), repetition_(repetition), options_(options), kept_(kKept), by_rule_(kByRule), rule_(tables) {
  // Where the dimension says nothing of the layout, both are ways of one layout.
  for (const OperatorSplit& option : options) {
    const std::int32_t plain = tables.setting_of(option.setting, false);
    const bool blends = option.alternate && plain >= 0 && tables.blend(plain) != plain;
    layout_of_.push_back(blends ? layout_of_.back() : layouts_++);
  }
}

void SplitPaths::keep(std::size_t ways) {
  if (ways == kept_) return;
  kept_ = ways;
  by_rule_ = std::max(kByRule / 2, ways / 4);
  rows_.clear();
}

std::int32_t SplitPaths::shift(std::int32_t begin, std::int32_t end) const {
  const std::int32_t region_end = repetition_.region_end[begin];
  if (end > region_end) return 0;
  const std::int32_t period = repetition_.period[begin];
  return (region_end - end) / period * period;
}

const std::vector<double>& SplitPaths::reshards(std::int32_t op) {
  const std::uint64_t key =
      static_cast<std::uint64_t>(tables_.facts(op - 1).kind) << 32 | static_cast<std::uint32_t>(tables_.facts(op).kind);
  std::vector<double>& times = reshards_[key];
  if (!times.empty()) return times;
  for (const OperatorSplit& before : options_) {
    for (const OperatorSplit& option : options_) {
      const ReshardTime time = reshard_time(tables_, op, before, option);
      times.push_back(time.forward + time.backward);
    }
  }
  return times;
}

double SplitPaths::memory(const Label& label, std::int32_t copies) const {
  return label.weight * tables_.state_multiple() + label.kept * copies +
         std::max(label.forward_reserve + label.backward_reserve, label.weight);
}

void SplitPaths::begin_row(Row& row, std::int32_t copies) {
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

void SplitPaths::note_endings(Row& row) {
  for (const std::vector<Label>& labels : row.labels) {
    for (const Label& label : labels) {
      row.endings.push_back({label.time, label.memory, label.node, label.first, label.last});
    }
  }
  row.endings_before.push_back(row.endings.size());
  row.results.resize(row.results.size() + kPlaces);
}

// Those that are beaten in time and memory go; of too many, those stay that lie evenly from the fastest to the
// smallest.
void SplitPaths::prune(std::vector<Way>& ways) const {
  std::sort(ways.begin(), ways.end(),
            [](const Way& a, const Way& b) { return a.time != b.time ? a.time < b.time : a.memory < b.memory; });
  double least = kInfinite;
  std::erase_if(ways, [&least](const Way& way) {
    if (way.memory >= least) return true;
    least = way.memory;
    return false;
  });
  if (ways.size() <= kept_) return;
  for (std::size_t i = 0; i < kept_; ++i) ways[i] = ways[i * (ways.size() - 1) / (kept_ - 1)];
  ways.resize(kept_);
}

void SplitPaths::extend(Row& row, std::int32_t copies) {
  const std::int32_t op = --row.begin;
  const std::vector<double>& reshard = reshards(op + 1);
  labels_.clear();
  for (std::vector<Label>& labels : row.labels) {
    labels_.insert(labels_.end(), labels.begin(), labels.end());
    labels.clear();
  }
  const double factor = tables_.facts(op).name.activation_factor;
  for (std::int32_t layout = 0; layout < layouts_; ++layout) {
    ways_.clear();
    for (std::size_t option = 0; option < options_.size(); ++option) {
      if (layout_of_[option] != layout) continue;
      const aceso::Row& first = tables_.row(options_[option].setting, op);
      const bool repeated =
          option > 0 && layout_of_[option - 1] == layout && same(first, tables_.row(options_[option - 1].setting, op));
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
        ways_.push_back({label.time + change + first.forward + first.backward,
                         label.memory + added + reserve - reserve_before, static_cast<std::int32_t>(i),
                         static_cast<std::int16_t>(option)});
      }
    }
    prune(ways_);
    for (const Way& way : ways_) {
      const aceso::Row& first = tables_.row(options_[way.option].setting, op);
      Label label = labels_[way.label];
      label.time = way.time;
      label.weight += first.weight;
      label.kept += first.activation * factor;
      label.forward_reserve = std::max(label.forward_reserve, first.forward_reserve);
      label.backward_reserve = std::max(label.backward_reserve, first.backward_reserve);
      label.memory = memory(label, copies);
      label.first = way.option;
      row.nodes.push_back({label.node, way.option});
      label.node = static_cast<std::int32_t>(row.nodes.size()) - 1;
      row.labels[layout].push_back(label);
    }
  }
  note_endings(row);
}

// The fastest way that fits without recompute, or with what the rule takes.
SplitPaths::Result SplitPaths::judge(const Row& row, std::int32_t begin, const Place& place) {
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

void SplitPaths::judge_by_rule(const Row& row, std::int32_t begin, std::int32_t copies, Result& result) {
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

void SplitPaths::trace(const Row& row, std::int32_t node) {
  path_.clear();
  splits_.clear();
  for (; node >= 0; node = row.nodes[node].next) {
    path_.push_back(row.nodes[node].option);
    splits_.push_back(options_[row.nodes[node].option]);
  }
}

SplitPaths::Row& SplitPaths::row_until(std::int32_t begin, std::int32_t end, std::int32_t copies) {
  Row& row = rows_[static_cast<std::uint64_t>(end) << 32 | static_cast<std::uint32_t>(copies)];
  if (row.end == 0) {
    row.end = end;
    begin_row(row, copies);
  }
  while (row.begin > begin) extend(row, copies);
  return row;
}

const SplitPaths::Result& SplitPaths::result(std::int32_t begin, std::int32_t end, const Place& place) {
  Row& row = row_until(begin, end, place.copies);
  const std::size_t where = (place.inter_node_input ? 2U : 0U) + (place.inter_node_output ? 1U : 0U);
  Result& known = row.results[static_cast<std::size_t>(end - begin - 1) * kPlaces + where];
  if (known.time < 0) known = judge(row, begin, place);
  return known;
}

double SplitPaths::time(std::int32_t begin, std::int32_t end, const Place& place) {
  const std::int32_t by = shift(begin, end);
  return result(begin + by, end + by, place).time;
}

std::vector<std::int16_t> SplitPaths::path(std::int32_t begin, std::int32_t end, const Place& place) {
  const std::int32_t by = shift(begin, end);
  const Result& found = result(begin + by, end + by, place);
  path_.clear();
  if (found.node >= 0) trace(row_until(begin + by, end + by, place.copies), found.node);
  return path_;
}

}  // namespace trimtab::tuner::aceso
