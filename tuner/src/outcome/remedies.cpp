#include "outcome/remedies.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/units.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::uint64_t kEvaluations = 3000;  // of one changed problem
constexpr int kHalvings = 6;                  // of the memory that is surely enough
constexpr double kSmallest = 0.01;            // of that memory: nearer is not asked for
constexpr std::array kMoreDevices{1, 2, 3, 4, 6, 8, 12, 16};

struct Knob {
  const char* name;
  bool Knobs::*honoured;
  const char* gain;  // null: few targets honour it, so it is named only where it is seen to help
};

constexpr std::array<Knob, 7> kRemedies{{{"recompute", &Knobs::recompute, "free activations"},
                                         {"microbatch", &Knobs::microbatch, "allow smaller microbatches"},
                                         {"data_parallel", &Knobs::data_parallel, "shrink microbatches"},
                                         {"pipeline", &Knobs::pipeline, "split the parameters"},
                                         {"uneven_stages", &Knobs::uneven_stages, "give full stages less"},
                                         {"sharded", &Knobs::sharded, nullptr},
                                         {"tensor_parallel", &Knobs::tensor_parallel, nullptr}}};

// The space of the same name with other knobs, on the cost model's cluster.
PlanSpace space_like(const PlanSpace& space, const CostModel& cost_model, const Knobs& knobs) {
  const std::int32_t microbatch = space.microbatches.empty() ? 1 : space.microbatches.front();
  return named_space(space.name, cost_model.model(), cost_model.cluster(), knobs, microbatch).value();
}

class Remedies {
 public:
  explicit Remedies(SearchRun& run) : run_(run), space_(run.space()), cost_model_(run.evaluator().cost_model()) {}

  std::string text() { return memory() + devices() + recompute() + knobs(); }

 private:
  // The first plan that fits in a short search.
  std::optional<Candidate> fitting(const CostModel& cost_model, const PlanSpace& space) {
    if (space.stages_max < space.stages_min) return std::nullopt;
    const std::unique_ptr<Evaluator> evaluator = cost_model.evaluator(space);
    SearchRun* watched = nullptr;
    SearchOptions options = run_.options();
    options.max_evaluations = kEvaluations;
    options.start.reset();
    options.stop = [this, &watched] {
      const bool found = watched != nullptr && !watched->shortlist().empty();
      return found || (run_.options().stop && run_.options().stop());
    };
    evaluator->stop_when(options.stop);
    SearchRun search(*evaluator, options);
    watched = &search;
    run_aceso(search, std::nullopt);
    if (search.shortlist().empty()) return std::nullopt;
    return candidate_of(search.shortlist().plans().front(), space);
  }

  // Whether so much more on every device is what the closest plan lacks: not where its host is what is full.
  bool closest_fits(double more) {
    const std::unique_ptr<CostModel> larger = with_memory(more);
    return larger == nullptr || larger->evaluate(run_.evaluator().plan(*run_.closest())).feasible;
  }

  // Null where the cost model cannot say.
  [[nodiscard]] std::unique_ptr<CostModel> with_memory(double more) const {
    Cluster cluster = cost_model_.cluster();
    for (Node& node : cluster.nodes) node.memory_bytes += static_cast<Bytes>(more);
    return cost_model_.on(cluster);
  }

  // More memory on every device, as little as a few halvings find.
  std::string memory() {
    double enough = std::ceil(run_.evaluator().price(*run_.closest()).excess_bytes);
    if (enough <= 0 || std::isinf(enough) || !closest_fits(enough)) return "";
    std::string shape = shape_text(*run_.closest());
    double refused = 0;
    const double smallest = kSmallest * enough;
    for (int i = 0; i < kHalvings && enough - refused > smallest; ++i) {
      const double tried = std::ceil((enough + refused) / 2);
      const std::unique_ptr<CostModel> larger = with_memory(tried);
      if (larger == nullptr) break;
      const std::optional<Candidate> found = fitting(*larger, space_like(space_, *larger, space_.knobs));
      (found ? enough : refused) = tried;
      if (found) shape = shape_text(*found);
    }
    return "; it would fit with " + format_bytes(static_cast<Bytes>(enough)) + " more memory on each device (" + shape +
           ")";
  }

  std::string devices() {
    if (cost_model_.cluster().nodes.empty()) return "";
    for (const int more : kMoreDevices) {
      Cluster cluster = cost_model_.cluster();
      cluster.nodes.back().devices += more;
      const std::unique_ptr<CostModel> larger = cost_model_.on(cluster);
      if (larger == nullptr) return "";
      const std::optional<Candidate> found = fitting(*larger, space_like(space_, *larger, space_.knobs));
      if (!found) continue;
      return "; it would fit with " + std::to_string(more) + (more == 1 ? " more device" : " more devices") + " on " +
             cluster.nodes.back().name + " (" + shape_text(*found) + ")";
    }
    return "";
  }

  std::string recompute() {
    if (!space_.derived_recompute || !space_.knobs.recompute) return "";
    PlanSpace space = space_;
    space.derived_recompute = false;
    const std::optional<Candidate> found = fitting(cost_model_, space);
    return found ? "; it would fit with any operator recomputed (" + shape_text(*found) + ")" : "";
  }

  std::string knobs() {
    std::string text;
    for (const Knob& knob : kRemedies) {
      Knobs knobs = space_.knobs;
      if (knobs.*knob.honoured) continue;
      knobs.*knob.honoured = true;
      const std::optional<Candidate> found = fitting(cost_model_, space_like(space_, cost_model_, knobs));
      if (!found && knob.gain == nullptr) continue;
      text += std::string("; the job does not honour knobs.") + knob.name + ", which would " +
              (found ? "make it fit (" + shape_text(*found) + ")" : knob.gain);
    }
    return text;
  }

  SearchRun& run_;
  const PlanSpace& space_;
  const CostModel& cost_model_;
};

}  // namespace

std::string shape_text(const Candidate& candidate) {
  std::string text =
      std::to_string(candidate.stages.size()) + (candidate.stages.size() == 1 ? " stage" : " stages") + " on ";
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    text += (s > 0 ? " + " : "") + std::to_string(candidate.stages[s].devices);
  }
  const bool one = candidate.stages.size() == 1 && candidate.stages.front().devices == 1;
  return text + (one ? " device" : " devices") + ", microbatch " + std::to_string(candidate.microbatch);
}

std::string remedies(SearchRun& run) {
  return Remedies(run).text();
}

}  // namespace trimtab::tuner
