#include "plan_space.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace trimtab::tuner {
namespace {

bool listed(const std::vector<std::int32_t>& values, std::int32_t value) {
  return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
}

// First operator of each run of operators of one layer.
std::vector<std::int32_t> layer_begins(const Model& model) {
  std::vector<std::int32_t> begins;
  for (std::size_t i = 0; i < model.operators.size(); ++i) {
    if (i == 0 || model.operators[i].layer != model.operators[i - 1].layer) {
      begins.push_back(static_cast<std::int32_t>(i));
    }
  }
  return begins;
}

// Ways to write a number of devices as a sum of degrees, one for each stage.
class Splits {
 public:
  Splits(const std::vector<std::int32_t>& degrees, std::int32_t devices, std::int32_t stages)
      : degrees_(degrees),
        width_(static_cast<std::size_t>(devices) + 1),
        reachable_((static_cast<std::size_t>(stages) + 1) * width_, false) {
    reachable_[0] = true;
    for (std::int32_t s = 1; s <= stages; ++s) {
      for (std::int32_t left = 0; left <= devices; ++left) {
        reachable_[index(s, left)] = std::any_of(degrees.begin(), degrees.end(), [&](std::int32_t degree) {
          return degree <= left && reachable_[index(s - 1, left - degree)];
        });
      }
    }
  }

  void list(std::int32_t stages, std::int32_t left, std::size_t limit, std::vector<std::vector<std::int32_t>>& out) {
    if (out.size() >= limit || !reachable_[index(stages, left)]) return;
    if (stages == 0) {
      out.push_back(prefix_);
      return;
    }
    for (const std::int32_t degree : degrees_) {
      if (degree > left) break;
      prefix_.push_back(degree);
      list(stages - 1, left - degree, limit, out);
      prefix_.pop_back();
    }
  }

  // Stage by stage the degree nearest to an equal share of what is left.
  [[nodiscard]] std::vector<std::int32_t> even(std::int32_t stages, std::int32_t left) const {
    std::vector<std::int32_t> split;
    if (!reachable_[index(stages, left)]) return split;
    for (; stages > 0; --stages) {
      const auto distance = [&](std::int32_t degree) { return std::abs(degree * stages - left); };
      std::int32_t best = 0;
      for (const std::int32_t degree : degrees_) {
        if (degree > left || !reachable_[index(stages - 1, left - degree)]) continue;
        if (best == 0 || distance(degree) < distance(best)) best = degree;
      }
      split.push_back(best);
      left -= best;
    }
    return split;
  }

 private:
  [[nodiscard]] std::size_t index(std::int32_t stages, std::int32_t left) const {
    return static_cast<std::size_t>(stages) * width_ + static_cast<std::size_t>(left);
  }

  const std::vector<std::int32_t>& degrees_;
  std::size_t width_;
  std::vector<bool> reachable_;
  std::vector<std::int32_t> prefix_;
};

}  // namespace

std::vector<std::int32_t> allowed_microbatches(const Model& model) {
  std::vector<std::int32_t> values;
  for (std::int32_t value = 1; value <= model.global_batch; ++value) {
    if (model.global_batch % value == 0 && listed(model.microbatch_total, value)) values.push_back(value);
  }
  return values;
}

bool divides_well(const Model& model, std::int32_t microbatch, std::int32_t dp) {
  return microbatch % dp == 0 && listed(model.microbatch_per_replica, microbatch / dp);
}

std::vector<std::int32_t> allowed_cuts(const Model& model) {
  std::vector<std::int32_t> cuts;
  for (std::size_t i = 1; i < model.operators.size(); ++i) {
    if (model.operators[i].cut_before) cuts.push_back(static_cast<std::int32_t>(i));
  }
  return cuts;
}

std::vector<std::int32_t> even_cuts(const Model& model, std::int32_t stages) {
  const std::vector<std::int32_t> allowed = allowed_cuts(model);
  const std::vector<std::int32_t> layers = layer_begins(model);
  const auto operators = static_cast<std::int64_t>(model.operators.size());
  const auto units = static_cast<std::int64_t>(layers.size());
  std::vector<std::int32_t> cuts;
  std::ptrdiff_t next = 0;  // first allowed cut that is not used yet
  for (std::int32_t stage = 1; stage < stages; ++stage) {
    const std::int64_t target =
        units >= stages ? layers[static_cast<std::size_t>(units * stage / stages)] : operators * stage / stages;
    const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(allowed.size()) - (stages - 1 - stage) - 1;
    std::ptrdiff_t best = next;
    for (std::ptrdiff_t i = next; i <= last; ++i) {
      if (std::llabs(allowed[i] - target) < std::llabs(allowed[best] - target)) best = i;
    }
    cuts.push_back(allowed[best]);
    next = best + 1;
  }
  return cuts;
}

std::vector<std::int32_t> possible_samples(const Model& model, const std::vector<std::int32_t>& degrees) {
  std::set<std::int32_t> samples;
  for (const std::int32_t microbatch : allowed_microbatches(model)) {
    for (const std::int32_t degree : degrees) {
      if (divides_well(model, microbatch, degree)) samples.insert(microbatch / degree);
    }
  }
  return {samples.begin(), samples.end()};
}

std::vector<std::int32_t> possible_degrees(const Model& model, const Cluster& cluster, const Knobs& knobs) {
  const std::int32_t devices = cluster.devices();
  std::vector<std::int32_t> degrees;
  const std::vector<std::int32_t> microbatches = allowed_microbatches(model);
  for (std::int32_t degree = 1; degree <= devices; ++degree) {
    if (degree > 1 && !knobs.data_parallel) break;
    if (!knobs.pipeline && degree != devices) continue;
    if (!knobs.uneven_stages && devices % degree != 0) continue;
    const bool possible = std::any_of(microbatches.begin(), microbatches.end(),
                                      [&](std::int32_t m) { return divides_well(model, m, degree); });
    if (possible) degrees.push_back(degree);
  }
  return degrees;
}

PlanSpace plan_space(const Model& model, const Cluster& cluster, const Knobs& knobs, std::int32_t fixed_microbatch) {
  PlanSpace space;
  space.knobs = knobs;
  space.devices = cluster.devices();
  space.operators = static_cast<std::int32_t>(model.operators.size());
  space.microbatches = allowed_microbatches(model);
  if (!knobs.microbatch) space.microbatches = {fixed_microbatch};
  space.cuts = allowed_cuts(model);
  space.stages_max = std::min<std::int32_t>(space.devices, static_cast<std::int32_t>(space.cuts.size()) + 1);
  if (!knobs.pipeline) space.stages_max = 1;
  if (!knobs.data_parallel) space.stages_min = space.devices;
  return space;
}

std::vector<std::int32_t> PlanSpace::degrees(const Model& model, std::int32_t microbatch, std::int32_t stages) const {
  std::vector<std::int32_t> possible;
  for (std::int32_t degree = 1; degree <= devices; ++degree) {
    if (degree > 1 && !knobs.data_parallel) break;
    if (!knobs.uneven_stages && degree * stages != devices) continue;
    if (divides_well(model, microbatch, degree)) possible.push_back(degree);
  }
  return possible;
}

std::vector<std::vector<std::int32_t>> PlanSpace::device_splits(const Model& model, std::int32_t microbatch,
                                                                std::int32_t stages, std::size_t limit) const {
  const std::vector<std::int32_t> possible = degrees(model, microbatch, stages);
  std::vector<std::vector<std::int32_t>> splits;
  Splits(possible, devices, stages).list(stages, devices, limit, splits);
  return splits;
}

std::vector<std::int32_t> PlanSpace::even_split(const Model& model, std::int32_t microbatch,
                                                std::int32_t stages) const {
  const std::vector<std::int32_t> possible = degrees(model, microbatch, stages);
  return Splits(possible, devices, stages).even(stages, devices);
}

}  // namespace trimtab::tuner
