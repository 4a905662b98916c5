#include "tuner/search.hpp"

#include <algorithm>
#include <map>

#include "outcome/bucket_sizes.hpp"
#include "pricing/bounds.hpp"
#include "schema/target.hpp"
#include "strategies/strategy_table.hpp"
#include "tuner/validate.hpp"

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

// "3 stages on 1 + 1 + 2 devices, microbatch 4"
std::string shape_text(const Candidate& candidate) {
  std::string text =
      std::to_string(candidate.stages.size()) + (candidate.stages.size() == 1 ? " stage" : " stages") + " on ";
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    text += (s > 0 ? " + " : "") + std::to_string(candidate.stages[s].devices);
  }
  const bool one = candidate.stages.size() == 1 && candidate.stages.front().devices == 1;
  return text + (one ? " device" : " devices") + ", microbatch " + std::to_string(candidate.microbatch);
}

// The space of the same name with other knobs, on the cost model's cluster.
PlanSpace space_like(const PlanSpace& space, const CostModel& cost_model, const Knobs& knobs) {
  const std::int32_t microbatch = space.microbatches.empty() ? 1 : space.microbatches.front();
  return named_space(space.name, cost_model.model(), cost_model.cluster(), knobs, microbatch).value();
}

// Which smallest changes would let some plan fit: memory, devices, knobs. Each is found by searching the changed
// problem, so what is said to fit does.
class Remedies {
 public:
  explicit Remedies(SearchRun& run) : run_(run), space_(run.space()), cost_model_(run.evaluator().cost_model()) {}

  // One sentence for each kind of change that helps, "; " before each; empty where none was found. REQUIRES: the run
  // has found no plan that fits, and has a closest candidate.
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

std::string no_split(const PlanSpace& space) {
  return "no plan gives every one of the " + std::to_string(space.devices) + " devices a stage: the model has " +
         std::to_string(space.cuts.size()) +
         " places to cut, and replicas must share one of its microbatches evenly; allow more microbatches, "
         "data parallelism or fewer devices";
}

// Nothing is said of the plans that it did not come to.
std::string ended_early(const SearchRun& run, std::uint64_t plans, const std::string& excess) {
  return "none of " + std::to_string(plans) + (plans == 1 ? " plan" : " plans") + " fitted before the search " +
         (run.stop_reason() == "budget" ? "had used up its budget" : "was ended") + "; the nearest, " +
         shape_text(*run.closest()) + ", fails on " + excess + "; give it more to find one, or to say that none fits";
}

// The plan of the space that is least over its memory, which stage is over, by how much, and which smallest
// changes would make it fit. That nothing fits is said only of a search that ended by itself.
std::string explain_infeasible(SearchRun& run) {
  if (!run.closest() && !run.refused().empty()) return "every plan that fits has failed before and is excluded";
  if (!run.closest() && !run.stop_reason().empty()) return "the search was ended before it found a plan that fits";
  if (!run.closest()) return no_split(run.space());
  const std::uint64_t plans = run.evaluator().evaluations();
  const std::string excess = run.evaluator().excess_text(*run.closest());
  if (excess.empty()) return "every plan that fits has failed before and is excluded";
  const bool ended = !run.stop_reason().empty();
  // What would help is looked for with strategies that know no target's limits.
  const std::string& target = run.options().target;
  if (!limits_plans(target)) {
    const std::string none = "no plan fits; the closest, " + shape_text(*run.closest()) + ", fails on " + excess;
    return (ended ? ended_early(run, plans, excess) : none) + (run.options().remedies ? Remedies(run).text() : "");
  }
  if (ended) return ended_early(run, plans, excess);
  return "no plan that target " + target + " runs fits; the closest, " + shape_text(*run.closest()) + ", fails on " +
         excess + "; search without --target for what would";
}

Result<const Strategy*> find_strategy(const std::string& name) {
  std::string known;
  for (const Strategy& strategy : strategy_table()) {
    if (strategy.name == name) return &strategy;
    known += (known.empty() ? "" : ", ") + std::string(strategy.name);
  }
  return bad_input("strategy: needs one of " + known + ", found '" + name + "'");
}

constexpr std::int32_t kShortModel = 2000;  // operators
constexpr double kMomentOfEffort = 0.05;
constexpr std::int32_t kGuesses = 16;  // counts of stages whose costs a message looks at

// Names what the usual guesses need, so that the message says what to measure.
Error nothing_priced(Evaluator& evaluator) {
  const PlanSpace& space = evaluator.space();
  std::set<std::string> missing;
  for (const std::int32_t microbatch : space.microbatches) {
    const std::int32_t most = std::min(space.stages_max, space.stages_min + kGuesses);
    for (std::int32_t stages = space.stages_min; stages <= most; ++stages) {
      const std::vector<std::int32_t> split = space.even_split(evaluator.model(), microbatch, stages);
      if (split.empty()) continue;
      Candidate candidate;
      candidate.microbatch = microbatch;
      std::vector<std::int32_t> ends = even_cuts(evaluator.model(), stages);
      ends.push_back(space.operators);
      for (std::int32_t s = 0; s < stages; ++s) {
        candidate.stages.push_back({});
        candidate.stages.back().end = ends[s];
        candidate.stages.back().devices = split[s];
        candidate.stages.back().split = space.splits(evaluator.model(), microbatch, split[s]).front();
      }
      const Prediction prediction = evaluator.cost_model().evaluate(evaluator.plan(candidate));
      missing.insert(prediction.missing_costs.begin(), prediction.missing_costs.end());
    }
  }
  return bad_input("costs: no plan can be priced, " + std::to_string(missing.size()) +
                   " costs are missing: " + first_names(missing) + ". Profile the model on this hardware first");
}

// The incumbent as it is, its own recompute included: never worse than where the search started.
void add_start(const CostModel& cost_model, const Plan& start, SearchRun& run) {
  const Prediction prediction = cost_model.evaluate(start);
  Score score;
  score.priced = prediction.missing_costs.empty();
  score.ms = prediction.iteration_ms;
  score.excess_bytes = prediction.feasible ? 0 : 1;
  run.consider_plan(score, [&start] { return start; });
}

bool usable(const CostModel& cost_model, const Plan& start, const PlanSpace& space) {
  // A job's knobs say nothing of a space of its own.
  const bool valid = space.name == "job"
                         ? validate(start, cost_model.model(), cost_model.cluster(), space.knobs).empty()
                         : validate(start, cost_model.model(), cost_model.cluster()).empty();
  return valid && cost_model.unpriced(start).empty();
}

// Other strategies choose stage by stage, which no target with knobs for the whole job can run.
Status check_target(const SearchOptions& options) {
  if (!limits_plans(options.target) || options.strategy == "target") return {};
  return bad_input("strategy: plans of target '" + options.target + "' are found by strategy 'target' alone, found '" +
                   options.strategy + "'");
}

// Above 0: plans say a size of buckets, or have this one, and the search chooses it.
std::int64_t usual_bucket_bytes(const std::string& target) {
  if (target.empty()) return 0;
  const auto limits = target_limits(target);
  return limits.ok() ? limits->bucket_bytes : 0;
}

bool runs_on(const std::string& target, const Plan& start, const Model& model) {
  if (target.empty()) return true;
  const auto complaints = unhonoured(start, model, target);
  return complaints.ok() && complaints->empty();
}

constexpr double kMet = 1 - 1e-9;

// Nothing is faster: a search that was ended early may have found that too.
bool meets_bound(const SearchResult& result, const SearchOptions& options) {
  return !result.plans.empty() && options.excluded.empty() &&
         result.lower_bound_ms >= result.plans.front().prediction.iteration_ms * kMet;
}

// What a search's inner loop priced is priced once more, by the cost model itself, whose word counts.
struct Ranking {
  std::vector<RankedPlan> plans;  // best first; all fit
  std::string refused;            // why the fastest of the others does not fit; empty where all do
};

Ranking ranked(const CostModel& cost_model, const std::vector<Plan>& plans) {
  Ranking out;
  for (const Plan& plan : plans) {
    Prediction prediction = cost_model.evaluate(plan);
    if (prediction.feasible) {
      out.plans.push_back({plan, std::move(prediction)});
    } else if (out.refused.empty()) {
      out.refused = std::move(prediction.infeasible_reason);
    }
  }
  std::ranges::stable_sort(out.plans, [](const RankedPlan& a, const RankedPlan& b) {
    return a.prediction.iteration_ms < b.prediction.iteration_ms;
  });
  return out;
}

// A search of one space.
class SpaceSearch {
 public:
  SpaceSearch(const CostModel& cost_model, PlanSpace space, const SearchOptions& options)
      : cost_model_(cost_model),
        space_(std::move(space)),
        options_(options),
        evaluator_(cost_model.evaluator(space_)),
        run_(*evaluator_, options_) {
    evaluator_->stop_when([this] { return run_.over(); });
  }

  // `best_ms`: what a plan of another space takes.
  Status run(const Strategy& strategy, double best_ms, SearchOutcome& outcome) {
    std::optional<Candidate> start;
    const Model& model = cost_model_.model();
    if (options_.start && usable(cost_model_, *options_.start, space_) &&
        runs_on(options_.target, *options_.start, model)) {
      start = candidate_of(*options_.start, space_);
      if (start || space_.name == "job" || !options_.target.empty()) add_start(cost_model_, *options_.start, run_);
    }
    const bool interleaves = space_.interleaved && strategy.run != run_target;
    const StrategyEnd end = interleaves ? run_interleaved(run_) : run_strategy(strategy, run_, start);
    if (!end.refusal.empty()) return bad_input("strategy " + options_.strategy + ": " + end.refusal);
    outcome.trace = std::move(run_.trace());
    SearchResult& result = outcome.result;
    result.strategy = options_.strategy;
    result.cost_model = cost_model_.name();
    result.space = space_.name;
    result.seed = options_.seed;
    result.evaluations = evaluator_->evaluations();
    result.stopped = run_.stop_reason().empty() ? end.stopped : run_.stop_reason();
    result.lower_bound_ms = end.lower_bound_ms;
    const std::int64_t bucket_bytes = usual_bucket_bytes(options_.target);
    // No bound knows of buckets: a step that pays fewer latencies may be below it.
    if (!end.proven && bucket_bytes == 0) {
      // Time has run out: a bound may take a moment, no more.
      const double effort = run_.stop_reason() != "cancelled" ? 1
                            : space_.operators <= kShortModel ? kMomentOfEffort
                                                              : 0;
      const double bound = this->bound(std::min(best_ms, run_.shortlist().best_ms()), effort);
      result.lower_bound_ms = std::max(end.lower_bound_ms, bound);
    }
    std::vector<Plan> found = run_.shortlist().plans();
    // What a target recomputes of a device's stages is not what it does of each.
    if (space_.interleaved) std::erase_if(found, [&](const Plan& of) { return !runs_on(options_.target, of, model); });
    if (bucket_bytes > 0) found = with_bucket_sizes(cost_model_, found, bucket_bytes, options_.excluded);
    Ranking ranking = ranked(cost_model_, found);
    refused_ = std::move(ranking.refused);
    if (ranking.plans.size() > options_.plans) ranking.plans.resize(options_.plans);
    result.plans = std::move(ranking.plans);
    const bool proven = end.proven && run_.stop_reason().empty() && refused_.empty();
    result.proven = proven || meets_bound(result, options_);
    return {};
  }

  // No plan of the space takes less; 0 = unknown.
  [[nodiscard]] double bound(double best_ms, double effort) {
    Bounds* const bounds = evaluator_->bounds();
    if (bounds == nullptr) return 0;
    return bounds->lower_bound_ms({best_ms, options_.idle_devices, effort});
  }

  // After run(), where it found no plan.
  Result<std::string> why_nothing_fits() {
    if (!refused_.empty()) return "none of the plans that were found fits; the fastest fails on " + refused_;
    const bool anything_possible = space_.stages_max >= space_.stages_min && evaluator_->evaluations() > 0;
    if (!run_.closest() && anything_possible && run_.refused().empty() && run_.stop_reason().empty()) {
      return nothing_priced(*evaluator_);
    }
    return explain_infeasible(run_);
  }

 private:
  const CostModel& cost_model_;
  PlanSpace space_;
  SearchOptions options_;
  std::unique_ptr<Evaluator> evaluator_;
  SearchRun run_;
  std::string refused_;  // why the fastest of those that do not fit does not
};

// Of several spaces, the first gets half and each other one an equal share of what those before it have left.
std::optional<SearchOptions> share_of(const SearchOptions& whole, std::uint64_t used, std::size_t spaces) {
  SearchOptions share = whole;
  if (whole.max_evaluations > 0) {
    share.max_evaluations = used < whole.max_evaluations ? (whole.max_evaluations - used) / spaces : 0;
    if (share.max_evaluations == 0) return std::nullopt;
  }
  if (!whole.spent) return share;
  const double from = std::min(1.0, whole.spent());
  const double until = from + (1 - from) / static_cast<double>(spaces);
  share.spent = [&whole, from, until] { return until > from ? (whole.spent() - from) / (until - from) : 1; };
  share.stop = [&whole, until] { return (whole.stop && whole.stop()) || whole.spent() >= until; };
  return share;
}

double best_ms(const SearchResult& result) {
  return result.plans.empty() ? std::numeric_limits<double>::infinity() : result.plans.front().prediction.iteration_ms;
}

// Best first, no more than were asked for; without repeats and near copies of faster ones.
void keep_best(const SearchOptions& options, std::vector<RankedPlan>& plans) {
  std::ranges::stable_sort(plans, {}, [](const RankedPlan& of) { return of.prediction.iteration_ms; });
  std::set<std::string> seen;
  std::map<std::string, double> slowest;    // of those that are kept, by what they are without their recompute
  std::map<std::string, std::size_t> kept;  // by shape
  std::erase_if(plans, [&](const RankedPlan& of) {
    if (!seen.insert(semantic_hash(of.plan)).second) return true;
    if (options.distinct > 0) {
      const double ms = of.prediction.iteration_ms;
      const auto [alike, is_new] = slowest.try_emplace(semantic_hash(layout_of(of.plan)), ms);
      if (!is_new && ms <= alike->second * (1 + options.distinct)) return true;
      alike->second = ms;
    }
    return options.of_a_shape > 0 && ++kept[to_json(shape_of(of.plan))] > options.of_a_shape;
  });
  if (plans.size() > options.plans) plans.resize(options.plans);
}

// Trace, evaluations and plans of another search.
void join(SearchOutcome part, const SearchOptions& options, SearchOutcome& whole) {
  SearchResult& result = whole.result;
  std::ranges::move(part.trace, std::back_inserter(whole.trace));
  result.evaluations += part.result.evaluations;
  std::ranges::move(part.result.plans, std::back_inserter(result.plans));
  keep_best(options, result.plans);
}

// What the search of another space has found. The bound of both is that of the lower.
void take_over(SearchOutcome part, const SearchOptions& options, SearchOutcome& whole) {
  SearchResult& result = whole.result;
  if (part.result.stopped == "budget" || part.result.stopped == "cancelled") result.stopped = part.result.stopped;
  result.proven = result.proven && part.result.proven;
  const bool nothing = part.result.proven && part.result.plans.empty();
  if (!nothing) result.lower_bound_ms = std::min(result.lower_bound_ms, part.result.lower_bound_ms);
  join(std::move(part), options, whole);
}

// The spaces of other whole plans, those of the least bounds first, and what is left out of them: those that hold
// nothing better than what is known.
Status search_others(const CostModel& cost_model, std::vector<PlanSpace> spaces, const Strategy& strategy,
                     const SearchOptions& options, SearchOutcome& whole) {
  struct Other {
    double bound_ms = 0;
    PlanSpace space;
  };
  std::vector<Other> others;
  for (PlanSpace& space : spaces) {
    const double bound = SpaceSearch(cost_model, space, options).bound(std::numeric_limits<double>::infinity(), 0);
    others.push_back({bound, std::move(space)});
  }
  std::ranges::stable_sort(others, {}, &Other::bound_ms);
  for (std::size_t i = 0; i < others.size(); ++i) {
    const double best = best_ms(whole.result);
    SearchOutcome part;
    part.result.lower_bound_ms = others[i].bound_ms;
    part.result.stopped = "budget";
    const auto share = share_of(options, whole.result.evaluations, others.size() - i);
    if (share) {
      SpaceSearch search(cost_model, std::move(others[i].space), *share);
      const double effort = best < std::numeric_limits<double>::infinity() ? 1 : 0;
      part.result.lower_bound_ms = search.bound(best, effort);
      part.result.stopped = "exhausted";
      part.result.proven = options.excluded.empty() && part.result.lower_bound_ms >= best * kMet;
      if (!part.result.proven) TRIMTAB_TRY_STATUS(search.run(strategy, best, part));
    }
    take_over(std::move(part), options, whole);
  }
  whole.result.lower_bound_ms = std::min(whole.result.lower_bound_ms, best_ms(whole.result));
  whole.result.proven = whole.result.proven || meets_bound(whole.result, options);
  return {};
}

// Those that the cost model prices; of every count of devices, where some may be left idle.
std::vector<PlanSpace> other_spaces(const CostModel& cost_model, const PlanSpace& space, bool idle_devices) {
  std::vector<PlanSpace> spaces;
  PlanSpace used = space;
  for (used.devices = idle_devices ? 1 : space.devices; used.devices <= space.devices; ++used.devices) {
    std::vector<PlanSpace> others = whole_plan_spaces(cost_model.model(), used);
    std::move(others.begin(), others.end(), std::back_inserter(spaces));
  }
  if (spaces.empty()) return spaces;
  Segment segment;
  segment.operators = {0, space.operators};
  segment.tp = segment.cp = 2;
  Plan shares;
  shares.stages.push_back({{0, 1, 2, 3}, {segment}});
  shares.target_knobs["sequence_parallel"] = "true";
  return cost_model.unpriced(shares).empty() ? spaces : std::vector<PlanSpace>{};
}

// One strategy in all spaces.
Result<SearchOutcome> search_with(const CostModel& cost_model, const Knobs& knobs, const SearchOptions& options) {
  TRIMTAB_TRY(const Strategy* const strategy, find_strategy(options.strategy));
  const Model& model = cost_model.model();
  std::int32_t fixed = 0;
  if (!knobs.microbatch) {
    fixed = options.start ? options.start->microbatch : usual_guess(model, cost_model.cluster(), knobs).microbatch;
  }
  TRIMTAB_TRY(PlanSpace space, named_space(options.space, model, cost_model.cluster(), knobs, fixed));
  TRIMTAB_TRY_STATUS(leave_out(options.without, space));
  TRIMTAB_TRY_STATUS(check_target(options));
  if (!options.target.empty()) TRIMTAB_TRY_STATUS(restrict_to_target(options.target, model, space));
  if (options.live && options.start) TRIMTAB_TRY_STATUS(restrict_to_live(options.target, *options.start, space));
  std::vector<PlanSpace> others = other_spaces(cost_model, space, options.idle_devices);
  const auto share = others.empty() ? options : share_of(options, 0, 2).value_or(options);
  SpaceSearch first(cost_model, std::move(space), share);
  SearchOutcome outcome;
  TRIMTAB_TRY_STATUS(first.run(*strategy, std::numeric_limits<double>::infinity(), outcome));
  if (!others.empty()) {
    TRIMTAB_TRY_STATUS(search_others(cost_model, std::move(others), *strategy, options, outcome));
  }
  if (!outcome.result.plans.empty()) return outcome;
  TRIMTAB_TRY(outcome.infeasible, first.why_nothing_fits());
  return outcome;
}

}  // namespace

Result<SearchOutcome> search(const CostModel& cost_model, const Knobs& knobs, const SearchOptions& options) {
  if (options.first.empty()) return search_with(cost_model, knobs, options);
  SearchOptions begin = options;
  begin.strategy = options.first;
  TRIMTAB_TRY(SearchOutcome before, search_with(cost_model, knobs, begin));
  before.result.strategy = options.strategy;
  std::optional<SearchOptions> rest = share_of(options, before.result.evaluations, 1);
  if (before.result.proven || !rest || (options.stop && options.stop())) return before;
  if (!before.result.plans.empty()) rest->start = before.result.plans.front().plan;
  TRIMTAB_TRY(SearchOutcome outcome, search_with(cost_model, knobs, *rest));
  SearchResult& result = outcome.result;
  result.lower_bound_ms = std::max(result.lower_bound_ms, before.result.lower_bound_ms);
  join(std::move(before), options, outcome);
  if (result.plans.empty()) return outcome;
  outcome.infeasible.clear();
  result.lower_bound_ms = std::min(result.lower_bound_ms, best_ms(result));
  result.proven = result.proven || meets_bound(result, options);
  return outcome;
}

std::vector<std::string_view> strategies() {
  std::vector<std::string_view> names;
  for (const Strategy& strategy : strategy_table()) names.push_back(strategy.name);
  return names;
}

std::vector<std::string_view> plan_spaces() {
  return spaces();
}

}  // namespace trimtab::tuner
