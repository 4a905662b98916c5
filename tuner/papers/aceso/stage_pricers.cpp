#include "papers/aceso/stage_pricers.hpp"

#include <bit>

#include "papers/aceso/mixed_stage.hpp"
#include "papers/aceso/split_paths.hpp"
#include "plan/candidate.hpp"

namespace trimtab::tuner::aceso {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::size_t index_of(std::int32_t devices) {
  return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(devices)) - 1);
}

// What pricers of stages share: where stages lie and come again, and floors under any plan.
class AcesoPricer : public StagePricer {
 public:
  [[nodiscard]] double least_time() const final { return least_time_; }
  [[nodiscard]] double least_device_time() const final { return least_device_time_; }

 protected:
  AcesoPricer(const Tables& tables, const UniformStages& uniform)
      : tables_(tables),
        repetition_(uniform.repetition()),
        least_(static_cast<std::size_t>(tables.operators()), kInfinite),
        least_of_devices_(least_) {}

  // An operator takes so long on so many devices, at least in one way.
  void note_least(std::size_t op, double ms, std::int32_t devices) {
    least_[op] = std::min(least_[op], ms);
    least_of_devices_[op] = std::min(least_of_devices_[op], ms * devices);
  }
  // After all of them.
  void sum_least() {
    for (const double ms : least_) least_time_ += ms;
    for (const double ms : least_of_devices_) least_device_time_ += ms;
  }
  [[nodiscard]] Place place_of(const StagePlace& place) const {
    return aceso::place_of(tables_, place.left, place.first_device, place.devices);
  }

  const Tables& tables_;
  const Repetition& repetition_;
  std::vector<double> answer_;

 private:
  std::vector<double> least_, least_of_devices_;  // by operator
  double least_time_ = 0, least_device_time_ = 0;
};

// Stages that repeat along the model (whole layers further on) are priced once.
class UniformPricer final : public AcesoPricer {
 public:
  UniformPricer(const Tables& tables, UniformStages& uniform, const Model& model, const PlanSpace& space,
                std::int32_t microbatch)
      : AcesoPricer(tables, uniform), uniform_(uniform), microbatch_(microbatch), blends_(space.alternate_dimensions) {
    const auto operators = static_cast<std::size_t>(tables.operators());
    for (std::int32_t devices = 1; devices <= space.devices; devices *= 2) {
      options_.emplace_back();
      if (!std::binary_search(space.device_counts.begin(), space.device_counts.end(), devices)) continue;
      for (const Split& split : space.splits(model, microbatch, devices)) {
        const std::int32_t setting = setting_of(split);
        if (setting < 0) continue;
        Option option{split, setting, {}};
        for (const Sums& of : tables.table(setting).sums) option.sums.push_back((of.forward + of.backward) / 1000);
        for (std::size_t op = 0; op < operators; ++op) note_least(op, option.sums[op + 1] - option.sums[op], devices);
        options_.back().push_back(std::move(option));
      }
      std::stable_sort(options_.back().begin(), options_.back().end(),
                       [](const Option& a, const Option& b) { return a.sums.back() < b.sums.back(); });
    }
    sum_least();
  }

  std::span<const double> times(std::int32_t begin, std::span<const std::int32_t> ends,
                                const StagePlace& stage_place) override {
    constexpr std::int32_t kMargin = 16;
    const Place place = place_of(stage_place);
    const bool repeats = ends.back() <= repetition_.region_end[begin];
    const std::int32_t from = repeats ? repetition_.canonical[begin] : begin;
    const std::uint64_t how = index_of(stage_place.devices) << 24 | static_cast<std::uint64_t>(place.copies) << 3 |
                              (place.inter_node_input ? 4U : 0U) | (place.inter_node_output ? 2U : 0U) |
                              (repeats ? 1U : 0U);
    Row& row = rows_[how << 32 | static_cast<std::uint64_t>(from)];
    answer_.clear();
    for (const std::int32_t end : ends) {
      const std::int32_t length = end - begin;
      double& time = at(row, length, kMargin);
      if (time == kUnknown) time = price(from, from + length, stage_place.devices, place).time;
      answer_.push_back(time);
    }
    return answer_;
  }

  CandidateStage stage(std::int32_t begin, std::int32_t end, const StagePlace& place) override {
    CandidateStage stage;
    stage.end = end;
    stage.devices = place.devices;
    const Best best = price(begin, end, place.devices, place_of(place));
    if (best.option == nullptr) return stage;
    stage.split = best.option->split;
    for (std::int32_t op = begin; op < end; ++op) {
      if (tables_.alternate(tables_.behind(best.option->setting, op))) add_operator(op, stage.alternate);
    }
    return stage;
  }
  // How the stage's operators are split where they are split alike.
  [[nodiscard]] std::int32_t setting_of(const Split& split) const {
    const std::int32_t setting = tables_.setting(microbatch_ / split.dp, split.tp, false);
    return blends_ ? tables_.blend(setting) : setting;
  }
  [[nodiscard]] double floor(std::int32_t begin, std::int32_t end, std::int32_t devices) const override {
    double least = kInfinite;
    for (const Option& option : options(devices)) least = std::min(least, option.sums[end] - option.sums[begin]);
    return least;
  }
  [[nodiscard]] bool allows(std::int32_t devices) const override {
    return std::has_single_bit(static_cast<unsigned>(devices)) && index_of(devices) < options_.size() &&
           !options(devices).empty();
  }

 private:
  static constexpr double kUnknown = -1;
  struct Option {
    Split split;
    std::int32_t setting;
    std::vector<double> sums;  // ms of forward and backward before an operator
  };
  struct Row {  // times by length of the stage, from `first` on
    std::int32_t first = 0;
    std::vector<double> times;
  };
  struct Best {
    double time;
    const Option* option;
  };

  [[nodiscard]] const std::vector<Option>& options(std::int32_t devices) const { return options_[index_of(devices)]; }

  [[nodiscard]] Best price(std::int32_t begin, std::int32_t end, std::int32_t devices, const Place& place) {
    Best best{kInfinite, nullptr};
    for (const Option& option : options(devices)) {
      if (option.sums[end] - option.sums[begin] >= best.time) continue;
      if (!tables_.measured(option.setting, begin, end)) continue;
      const StageCost cost = uniform_.price({begin, end, option.setting, option.split.dp, option.split.tp, place});
      const double ms = cost.time / 1000;
      if (cost.memory <= tables_.memory_limit() && ms < best.time) best = {ms, &option};
    }
    return best;
  }

  // The slot of a length; the row grows by a margin around what is asked for.
  static double& at(Row& row, std::int32_t length, std::int32_t margin) {
    if (row.times.empty()) row.first = length;
    if (length < row.first) {
      const std::int32_t more = row.first - std::max(0, length - margin);
      row.times.insert(row.times.begin(), static_cast<std::size_t>(more), kUnknown);
      row.first -= more;
    }
    if (length >= row.first + static_cast<std::int32_t>(row.times.size())) {
      row.times.resize(static_cast<std::size_t>(length - row.first + 1 + margin), kUnknown);
    }
    return row.times[length - row.first];
  }

  UniformStages& uniform_;
  std::int32_t microbatch_;
  bool blends_;                               // operators may be split along their faster dimension
  std::vector<std::vector<Option>> options_;  // by log2 of devices, fastest over the whole model first
  std::unordered_map<std::uint64_t, Row> rows_;
};

class MixedPricer final : public AcesoPricer {
 public:
  MixedPricer(const Tables& tables, UniformStages& uniform, const Model& model, const PlanSpace& space,
              std::int32_t microbatch, PricerMode mode)
      : AcesoPricer(tables, uniform),
        uniform_stages_(uniform),
        uniform_(tables, uniform, model, space, microbatch),
        derived_recompute_(space.derived_recompute),
        mode_(mode) {
    const auto operators = static_cast<std::size_t>(tables.operators());
    const bool recompute = mode == PricerMode::kFloors || !space.derived_recompute;
    for (std::int32_t devices = 1; devices <= space.devices; devices *= 2) {
      stages_.push_back(std::make_unique<MixedStages>(tables, model, space, microbatch, devices, recompute));
      const MixedStages& stages = *stages_.back();
      paths_.push_back(std::make_unique<SplitPaths>(tables, repetition_, stages.options()));
      for (std::size_t op = 0; op < operators && !stages.empty(); ++op) {
        note_least(op, (stages.least()[op + 1] - stages.least()[op]) / 1000, devices);
      }
    }
    sum_least();
  }

  std::span<const double> times(std::int32_t begin, std::span<const std::int32_t> ends,
                                const StagePlace& place) override {
    if (uniform_alone_ && uniform_.allows(place.devices)) return uniform_.times(begin, ends, place);
    answer_.clear();
    for (const std::int32_t end : ends) answer_.push_back(price(begin, end, place.devices, place_of(place)));
    // Prices of memory leave gaps between their paths: the published rule may lie in one.
    if (mode_ == PricerMode::kTimes && uniform_.allows(place.devices)) {
      const std::span<const double> uniform = uniform_.times(begin, ends, place);
      for (std::size_t i = 0; i < answer_.size(); ++i) answer_[i] = std::min(answer_[i], uniform[i]);
    }
    return answer_;
  }

  // Least: uniform splits alone, with the published rule's recompute.
  void use(Effort effort) override {
    constexpr std::size_t kKept = 128;  // of a layout of a stage (split_paths.hpp)
    constexpr std::size_t kFew = 8;
    uniform_alone_ = effort == Effort::kLeast && mode_ == PricerMode::kTimes;
    for (const auto& paths : paths_) paths->keep(effort == Effort::kFull ? kKept : kFew);
  }

  CandidateStage stage(std::int32_t begin, std::int32_t end, const StagePlace& place) override {
    const Place at = place_of(place);
    if (uniform_.allows(place.devices)) {
      const std::int32_t ends[] = {end};
      const bool best = uniform_alone_ || uniform_.times(begin, ends, place)[0] <= price(begin, end, place.devices, at);
      if (best) return uniform_stage(begin, end, place);
    }
    CandidateStage stage;
    stage.end = end;
    stage.devices = place.devices;
    const std::vector<MixedChoice> choices = choices_of(begin, end, place.devices, at);
    if (choices.empty()) return stage;
    std::vector<Range> recompute;
    std::int32_t op = begin;
    for (const MixedChoice& choice : choices) {
      const OperatorSplit& option = stages_of(place.devices).options()[choice.option];
      append_split(stage, op + 1, {option.dp, option.tp, ShardedLevel::kNone, 0});
      if (option.alternate) add_operator(op, stage.alternate);
      if (choice.recompute) add_operator(op, recompute);
      ++op;
    }
    settle_splits(stage);
    if (!derived_recompute_) stage.recompute = recompute;
    return stage;
  }
  [[nodiscard]] double floor(std::int32_t begin, std::int32_t end, std::int32_t devices) const override {
    const std::vector<double>& least = stages_of(devices).least();
    return (least[end] - least[begin]) / 1000;
  }
  [[nodiscard]] bool allows(std::int32_t devices) const override {
    return std::has_single_bit(static_cast<unsigned>(devices)) && index_of(devices) < stages_.size() &&
           !stages_of(devices).empty();
  }
  [[nodiscard]] bool exact() const override { return false; }

 private:
  [[nodiscard]] MixedStages& stages_of(std::int32_t devices) const { return *stages_[index_of(devices)]; }

  // The stage at the place that it is priced at.
  [[nodiscard]] Range canonical(std::int32_t begin, std::int32_t end) const {
    const std::int32_t from = end <= repetition_.region_end[begin] ? repetition_.canonical[begin] : begin;
    return {from, from + end - begin};
  }

  [[nodiscard]] double price(std::int32_t begin, std::int32_t end, std::int32_t devices, const Place& place) {
    const bool by_rule = mode_ == PricerMode::kTimes && derived_recompute_;
    if (by_rule) return paths_[index_of(devices)]->time(begin, end, place) / 1000;
    const Range at = canonical(begin, end);
    const MixedResult& result = stages_of(devices).result(at.begin, at.end, place);
    return (mode_ == PricerMode::kFloors ? result.floor : result.time) / 1000;
  }

  // Of each operator; none where nothing fits.
  [[nodiscard]] std::vector<MixedChoice> choices_of(std::int32_t begin, std::int32_t end, std::int32_t devices,
                                                    const Place& place) {
    std::vector<MixedChoice> choices;
    if (derived_recompute_) {
      for (const std::int16_t option : paths_[index_of(devices)]->path(begin, end, place)) {
        choices.push_back({option, false});
      }
      return choices;
    }
    const Range at = canonical(begin, end);
    const MixedResult result = stages_of(devices).result(at.begin, at.end, place);
    if (result.price < 0) return choices;
    return stages_of(devices).path(at.begin, at.end, place, result.price, result.state);
  }

  // The same stage of one split by the published rule, spelled out.
  CandidateStage uniform_stage(std::int32_t begin, std::int32_t end, const StagePlace& place) {
    CandidateStage stage = uniform_.stage(begin, end, place);
    if (derived_recompute_) return stage;
    const Split& split = stage.split;
    const UniformStage of{begin, end, uniform_.setting_of(split), split.dp, split.tp, place_of(place)};
    std::vector<std::uint8_t> flags;
    if (of.setting >= 0) (void)uniform_stages_.parts(of, flags);
    stage.recompute = ranges_of(flags, begin);
    return stage;
  }

  UniformStages& uniform_stages_;
  UniformPricer uniform_;
  bool derived_recompute_;
  PricerMode mode_;
  bool uniform_alone_ = false;
  std::vector<std::unique_ptr<MixedStages>> stages_;  // by log2 of devices
  std::vector<std::unique_ptr<SplitPaths>> paths_;    // the same, where the published rule says what is recomputed
};

}  // namespace

std::unique_ptr<StagePricer> uniform_stage_pricer(const Tables& tables, UniformStages& uniform, const Model& model,
                                                  const PlanSpace& space, std::int32_t microbatch) {
  return std::make_unique<UniformPricer>(tables, uniform, model, space, microbatch);
}

std::unique_ptr<StagePricer> mixed_stage_pricer(const Tables& tables, UniformStages& uniform, const Model& model,
                                                const PlanSpace& space, std::int32_t microbatch, PricerMode mode) {
  return std::make_unique<MixedPricer>(tables, uniform, model, space, microbatch, mode);
}

}  // namespace trimtab::tuner::aceso
