#pragma once

// Everything the aceso cost model reads, dense: rows by (setting, kind of operator), prefix sums by (setting,
// operator). A setting is samples per replica, tensor-parallel width and sharding choice. Built once, immutable; any
// thread.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "papers/aceso/layouts.hpp"
#include "papers/aceso/profile.hpp"
#include "schema/cluster.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner::aceso {

// The largest of consecutive numbers in constant time: maxima inside blocks of 16 and a doubling table over the blocks.
// Immutable once built; any thread.
class RangeMax {
 public:
  RangeMax() = default;
  explicit RangeMax(std::span<const double> values)
      : count_(values.size()), blocks_((values.size() + (std::size_t{1} << kShift) - 1) >> kShift) {
    constexpr std::size_t kBlock = std::size_t{1} << kShift;
    const auto levels = static_cast<std::size_t>(std::bit_width(blocks_));
    numbers_.reserve(level_begin(levels));
    for (int copy = 0; copy < 3; ++copy) numbers_.insert(numbers_.end(), values.begin(), values.end());
    double* const from_block_begin = numbers_.data() + count_;
    double* const to_block_end = from_block_begin + count_;
    for (std::size_t i = 1; i < count_; ++i) {
      if (i % kBlock != 0) from_block_begin[i] = std::max(from_block_begin[i], from_block_begin[i - 1]);
    }
    for (std::size_t i = count_; i-- > 1;) {
      if (i % kBlock != 0) to_block_end[i - 1] = std::max(to_block_end[i - 1], to_block_end[i]);
    }
    for (std::size_t i = 0; i < count_; i += kBlock) numbers_.push_back(to_block_end[i]);
    for (std::size_t level = 1; level < levels; ++level) {
      const double* const narrow = numbers_.data() + level_begin(level - 1);
      const std::size_t width = std::size_t{1} << (level - 1);
      for (std::size_t i = 0; i + 2 * width <= blocks_; ++i) numbers_.push_back(std::max(narrow[i], narrow[i + width]));
    }
  }

  // The largest of values [begin, end); 0 where there is none.
  [[nodiscard]] double operator()(std::int32_t begin, std::int32_t end) const {
    if (begin >= end) return 0;
    const std::int32_t last = end - 1;
    const std::int32_t first_block = begin >> kShift;
    const std::int32_t last_block = last >> kShift;
    const double* const values = numbers_.data();
    if (first_block == last_block) return *std::max_element(values + begin, values + end);
    const double edges = std::max(values[2 * count_ + begin], values[count_ + last]);
    return last_block - first_block < 2 ? edges : std::max(edges, blocks(first_block + 1, last_block));
  }
  [[nodiscard]] double at(std::int32_t index) const { return numbers_[index]; }

 private:
  static constexpr std::int32_t kShift = 4;

  [[nodiscard]] double blocks(std::int32_t begin, std::int32_t end) const {
    const auto level = static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(end - begin)) - 1);
    const double* const largest = numbers_.data() + level_begin(level);
    return std::max(largest[begin], largest[end - (std::int32_t{1} << level)]);
  }
  // A level has 2^level - 1 fewer numbers than there are blocks.
  [[nodiscard]] std::size_t level_begin(std::size_t level) const {
    return 3 * count_ + level * (blocks_ + 1) + 1 - (std::size_t{1} << level);
  }

  std::size_t count_ = 0, blocks_ = 0;
  // One after the other: the values; by value, the largest of its block up to here, and from here on; by level and
  // block, the largest of 2^level blocks.
  std::vector<double> numbers_;
};

struct OperatorFacts {
  std::int32_t kind = 0;   // operators of one kind share their rows
  std::int32_t group = 0;  // operators of one name, which are chosen for recompute together
  NameFacts name;
  OperatorLayouts layouts;
};

// Sums over the operators before one.
struct Sums {
  double forward = 0, backward = 0;  // us
  double weight = 0;                 // MiB
  double activation = 0;             // MiB that count, factors by name applied
  std::int32_t unmeasured = 0;       // operators
};

// One setting's rows, and their sums over the whole model.
struct SettingTable {
  std::vector<Row> rows;   // by kind
  std::vector<Sums> sums;  // operators + 1
  RangeMax forward_reserve, backward_reserve;
  std::vector<std::int32_t> behind;  // of a blend: the setting of each kind's row
};

// The operators of one name.
struct NameGroup {
  std::vector<std::int32_t> members;  // ascending
  std::vector<std::int32_t> before;   // how many members lie before an operator; operators + 1
  bool never_recomputed = false;
  bool one_kind = true;
};

class Tables {
 public:
  // Fails where the cluster's memory is unknown or no operator was measured at all.
  [[nodiscard]] static Result<Tables> build(const Model& model, const Cluster& cluster, const Profile& profile);

  [[nodiscard]] std::int32_t operators() const { return static_cast<std::int32_t>(facts_.size()); }
  [[nodiscard]] const OperatorFacts& facts(std::int32_t op) const { return facts_[op]; }
  // Whether the operator's output is a checkpoint that is kept though the operator is recomputed.
  [[nodiscard]] bool keeps_output(std::int32_t op) const {
    return op + 1 < operators() && facts_[op].name.activation_factor == 1 && facts_[op + 1].name.starts_layer;
  }
  [[nodiscard]] const std::vector<NameGroup>& groups() const { return groups_; }
  // The index of a setting; -1 where nothing was measured at it.
  [[nodiscard]] std::int32_t setting(std::int32_t samples, std::int32_t tp, bool alternate) const;
  // The same setting with another tensor-parallel width.
  [[nodiscard]] std::int32_t with_tp(std::int32_t of, std::int32_t tp) const {
    return of < 0 ? -1 : setting(keys_[of].samples, tp, keys_[of].alternate);
  }
  // The blend of the setting with the same of the other sharding choice: each kind of operator in the faster one. Only
  // for table(), row() and measured(). The setting itself where there is no other, or a change of layout would follow.
  [[nodiscard]] std::int32_t blend(std::int32_t setting) const { return setting < 0 ? -1 : blends_[setting]; }
  // The setting behind an operator's row in a blend; the same setting where it is none.
  [[nodiscard]] std::int32_t behind(std::int32_t setting, std::int32_t op) const {
    const std::vector<std::int32_t>& of = settings_[setting].behind;
    return of.empty() ? setting : of[facts_[op].kind];
  }
  // The same setting with this sharding choice; -1 where it was not measured.
  [[nodiscard]] std::int32_t setting_of(std::int32_t setting_index, bool alternate) const {
    return setting(keys_[setting_index].samples, keys_[setting_index].tp, alternate);
  }
  [[nodiscard]] bool alternate(std::int32_t setting) const { return keys_[setting].alternate; }
  [[nodiscard]] const SettingTable& table(std::int32_t setting) const { return settings_[setting]; }
  [[nodiscard]] std::int32_t settings() const { return static_cast<std::int32_t>(settings_.size()); }
  [[nodiscard]] const Row& row(std::int32_t setting, std::int32_t op) const {
    return setting < 0 ? unmeasured_ : settings_[setting].rows[facts_[op].kind];
  }

  // Whether every operator of the range was measured at the setting.
  [[nodiscard]] bool measured(std::int32_t setting, std::int32_t begin, std::int32_t end) const {
    return setting >= 0 && settings_[setting].sums[end].unmeasured == settings_[setting].sums[begin].unmeasured;
  }

  // us to receive what the operator takes in, or to send what it gives out.
  [[nodiscard]] double transfer(double mib, bool inter_node) const {
    return (inter_node ? profile_.inter_node : profile_.intra_node).time(mib);
  }
  // Whether a stage that begins (ends) at a device lies beside another node, as the published code decides it.
  [[nodiscard]] bool inter_node_input(std::int32_t first_device) const {
    return first_device > 0 && node_begin_[first_device];
  }
  [[nodiscard]] bool inter_node_output(std::int32_t end_device) const { return node_begin_[end_device]; }
  [[nodiscard]] const Profile& profile() const { return profile_; }

  // Of one device, MiB.
  [[nodiscard]] double memory_limit() const { return memory_limit_; }
  [[nodiscard]] double headroom() const { return headroom_; }
  // MiB of weights, gradients and optimizer for one of weight.
  [[nodiscard]] double state_multiple() const { return state_multiple_; }
  [[nodiscard]] bool resharding() const { return resharding_; }

 private:
  void add_operators(const Model& model);
  void add_settings(const Model& model);
  void add_table(const Model& model, const Profile::Key& key);
  void add_blends();
  void add_sums(SettingTable table);

  Profile profile_;
  std::vector<OperatorFacts> facts_;
  std::vector<NameGroup> groups_;
  std::vector<Profile::Key> keys_;    // by setting, sorted
  std::vector<std::int32_t> blends_;  // by setting
  std::vector<SettingTable> settings_;
  std::vector<std::int32_t> first_of_kind_;
  std::vector<bool> node_begin_;  // by device, and one past the last
  Row unmeasured_ = unmeasured_row();
  double memory_limit_ = 0, headroom_ = 0, state_multiple_ = 1;
  bool resharding_ = true;
};

}  // namespace trimtab::tuner::aceso
