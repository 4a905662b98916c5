#include "native/step/native_evaluator.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::size_t kRemembered = 1 << 15;  // stages with memory switches

// Stages of the native model for the partition solver of `unified`: the time of a stage is what it adds to a steady
// round, its share of what happens once a step included, at the best uniform split and the recompute that fits, or with
// memory switches, which are looked for where the fastest without recomputes, or none fits. What
// the pipeline makes of it is for the simulation to say: times are not exact, floors are. One per search and
// microbatch; not thread-safe.
class NativeStagePricer final : public StagePricer {
 public:
  // The evaluator must outlive this.
  NativeStagePricer(NativeEvaluator& evaluator, std::int32_t microbatch)
      : evaluator_(evaluator), microbatch_(microbatch), rounds_(evaluator.model().global_batch / microbatch) {
    const PlanSpace& space = evaluator.space();
    for (const std::int32_t tp : space.tensor_parallel) {
      for (std::int32_t dp = 1; dp * tp <= space.devices && dp <= microbatch; ++dp) {
        if (microbatch % dp == 0) add_splits(dp * tp);
      }
    }
    // What second choices compute is not in the sums.
    if (space.alternate_dimensions) return;
    const auto operators = static_cast<std::size_t>(space.operators);
    std::vector<double> least(operators, kInfinite);
    for (const auto& [devices, sums] : floors_) {
      for (std::size_t i = 0; i < operators; ++i) least[i] = std::min(least[i], devices * (sums[i + 1] - sums[i]));
    }
    for (const double time : least) least_device_time_ += time;
  }

  std::span<const double> times(std::int32_t begin, std::span<const std::int32_t> ends,
                                const StagePlace& place) override {
    times_.assign(ends.size(), kInfinite);
    needs_memory_.assign(ends.size(), true);
    const std::vector<Option>& options = splits_.at(place.devices);
    for (const Option& option : options) {
      for (std::size_t i = 0; i < ends.size(); ++i) {
        const double time = price(begin, ends[i], place, option, times_[i]);
        if (time >= times_[i]) continue;
        times_[i] = time;
        needs_memory_[i] = recompute_ > 0;
      }
    }
    for (const Option& option : options) {
      for (std::size_t i = 0; i < ends.size() && option.switches; ++i) {
        const bool slower = (option.sums[ends[i]] - option.sums[begin]) / rounds_ >= times_[i];
        if (needs_memory_[i] && !slower) times_[i] = std::min(times_[i], switched(begin, ends[i], place, option).time);
      }
    }
    return times_;
  }

  CandidateStage stage(std::int32_t begin, std::int32_t end, const StagePlace& place) override {
    const std::vector<Option>& options = splits_.at(place.devices);
    CandidateStage best;
    best.end = end;
    best.devices = place.devices;
    best.split = options.front().split;
    double least = kInfinite;
    bool needs_memory = true;
    for (const Option& option : options) {
      const double time = price(begin, end, place, option, least);
      if (time >= least) continue;
      least = time;
      best.split = option.split;
      needs_memory = recompute_ > 0;
    }
    for (const Option& option : options) {
      if (!option.switches || !needs_memory) continue;
      const Switched& with = switched(begin, end, place, option);
      if (with.time >= least) continue;
      least = with.time;
      best = with.stage;
    }
    return best;
  }

  [[nodiscard]] double floor(std::int32_t begin, std::int32_t end, std::int32_t devices) const override {
    const std::vector<double>& sums = floors_.at(devices);
    return sums[end] - sums[begin];
  }

  [[nodiscard]] bool exact() const override { return false; }
  [[nodiscard]] bool estimates() const override { return true; }
  [[nodiscard]] bool allows(std::int32_t devices) const override { return splits_.count(devices) != 0; }
  // A pipeline's time is not the sum of its rounds and its stages to the last digit: no floor comes from this one.
  [[nodiscard]] double least_time() const override { return 0; }
  [[nodiscard]] double least_device_time() const override { return least_device_time_; }

 private:
  // What a split computes of one microbatch: prefix sums over operators, of a whole step.
  struct Option {
    Split split;
    std::span<const double> sums;
    bool switches = false;  // the split that memory switches have
  };
  struct Switched {
    double time = 0;
    CandidateStage stage;
  };

  void add_splits(std::int32_t devices) {
    const PlanSpace& space = evaluator_.space();
    if (splits_.count(devices) != 0 || !space.allows_devices(0, devices)) return;
    std::vector<Option> options;
    for (const Split& split : space.splits(evaluator_.model(), microbatch_, devices)) {
      const std::span<const double> sums = evaluator_.computing_sums(microbatch_, split);
      const bool switches = evaluator_.has_switches() && split == switchable(split);
      if (!sums.empty()) options.push_back({split, sums, switches});
    }
    if (options.empty()) return;
    const auto operators = static_cast<std::size_t>(space.operators);
    std::vector<double> floors(operators + 1, 0.0);
    for (std::size_t i = 0; i < operators; ++i) {
      double least = kInfinite;
      for (const Option& option : options) least = std::min(least, option.sums[i + 1] - option.sums[i]);
      floors[i + 1] = floors[i] + least / rounds_;
    }
    floors_.emplace(devices, std::move(floors));
    splits_.emplace(devices, std::move(options));
  }

  // The least round time up to `limit`, or infinite; `best` becomes the split's.
  double price(std::int32_t begin, std::int32_t end, const StagePlace& place, const Option& option, double limit) {
    if ((option.sums[end] - option.sums[begin]) / rounds_ >= limit) return kInfinite;
    stage_.end = end;
    stage_.devices = place.devices;
    stage_.split = option.split;
    const std::int32_t held = std::min(static_cast<std::int32_t>(rounds_), place.left);
    const StagePrice& price = evaluator_.stage_alone(stage_, begin, place.first_device, microbatch_, held);
    if (!price.priced || price.excess_bytes > 0) return kInfinite;
    recompute_ = price.recompute;
    return round_ms(price);
  }

  // The same with memory switches; infinite where they cannot be priced, or the search is over. Valid until the next
  // call.
  const Switched& switched(std::int32_t begin, std::int32_t end, const StagePlace& place, const Option& option) {
    const std::int32_t held = std::min(static_cast<std::int32_t>(rounds_), place.left);
    const std::int32_t at = evaluator_.place_of(place.first_device, place.devices);
    const std::array key{begin, end, at, place.devices, held, option.split.dp, option.split.tp};
    const auto known = switched_.find(key);
    if (known != switched_.end()) return known->second;
    if (evaluator_.stopped()) return unpriced_;
    if (switched_.size() >= kRemembered) switched_.clear();
    const auto found = switched_.try_emplace(key, Switched{kInfinite, {}}).first;
    stage_.end = end;
    stage_.devices = place.devices;
    stage_.split = option.split;
    std::optional<CandidateStage> with =
        evaluator_.with_best_switches(stage_, begin, place.first_device, microbatch_, held);
    if (!with) return found->second;
    const StagePrice& price = evaluator_.stage_alone(*with, begin, place.first_device, microbatch_, held);
    if (!price.priced || price.excess_bytes > 0) return found->second;
    found->second = {round_ms(price), *std::move(with)};
    return found->second;
  }

  [[nodiscard]] double round_ms(const StagePrice& price) const {
    const double device = price.forward + price.backward + price.recompute + price.communication;
    const double each = std::max(device, price.forward_launch + price.backward_launch);
    return each + (std::max(0.0, price.sync) + price.optimizer) / rounds_;
  }

  NativeEvaluator& evaluator_;
  std::int32_t microbatch_;
  double rounds_;
  double least_device_time_ = 0;
  std::map<std::int32_t, std::vector<Option>> splits_;  // by devices
  std::map<std::int32_t, std::vector<double>> floors_;  // by devices: prefix sums of one microbatch
  std::vector<double> times_;
  std::vector<bool> needs_memory_;  // by end: what is fastest recomputes, or nothing fits
  CandidateStage stage_;
  double recompute_ = 0;  // of the stage priced last
  const Switched unpriced_{std::numeric_limits<double>::infinity(), {}};
  std::map<std::array<std::int32_t, 7>, Switched> switched_;  // by what decides of them, the first device's place
};

}  // namespace

std::unique_ptr<StagePricer> NativeEvaluator::stage_pricer(std::int32_t microbatch) {
  return std::make_unique<NativeStagePricer>(*this, microbatch);
}

}  // namespace trimtab::tuner
