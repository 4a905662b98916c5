#include "coordinator/simulation.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "report.hpp"
#include "simulation/ground_truth.hpp"
#include "simulation/simulated_cluster.hpp"
#include "simulation/unmodelled_planner.hpp"
#include "simulation/verdict.hpp"
#include "tuner/search.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::array<std::string_view, 6> kPlanners = {"tuner", "random", "hill-climb", "grid", "grid-fast", "sweep"};
constexpr std::int64_t kStepsAfterDrift = 400;     // that a job may take to notice and to retune
constexpr std::uint64_t kMostRounds = 50'000'000;  // of the loop: more is a machine that stands still
constexpr std::size_t kStepsKept = 20'000;         // measured steps of the report

class Simulation {
 public:
  Simulation(const SimulationInput& input, Cluster cluster, GroundTruth truth, const SimulationNote& note)
      : input_(input),
        note_(note),
        truth_(std::move(truth)),
        cluster_(cluster, truth_, input.scenario, input.job.steps, input.seed * 2 + 1),
        verdict_(truth_),
        tuning_(begin_state(input, cluster.devices())),
        cluster_json_(to_json(cluster)) {
    for (const DriftSettings& drift : input.scenario.drift) {
      last_drift_ = std::max(last_drift_, drift.at_step);
      saves_ = saves_ || drift.kind == "coordinator";
    }
  }

  [[nodiscard]] Status run();
  [[nodiscard]] const TuningState& state() const { return tuning_->state(); }
  [[nodiscard]] std::string report() const { return report_json(state(), "", measured_); }
  [[nodiscard]] std::string judged(double best_ms, const std::string& best_json) const {
    return verdict_.json(input_, state(), cluster_.spent(), best_ms, best_json);
  }
  [[nodiscard]] GroundTruth& truth() { return truth_; }
  [[nodiscard]] std::uint64_t searches() const { return searches_; }
  [[nodiscard]] double planning_seconds() const { return planning_seconds_; }
  [[nodiscard]] double longest_search_seconds() const { return longest_search_seconds_; }

 private:
  static TuningState begin_state(const SimulationInput& input, std::int32_t devices) {
    TuningState state;
    state.job = input.job;
    state.job.elastic = input.elastic;
    state.job.world_size = devices;
    state.job.model_json = input.model_json;
    return state;
  }
  [[nodiscard]] Moment now() const { return {cluster_.clock().monotonic(), cluster_.clock().wall()}; }
  void take(std::vector<Action> actions);
  void feed(const Event& event);
  [[nodiscard]] Status restart();
  [[nodiscard]] Status carry_out(const Action& action);
  [[nodiscard]] SearchReply plans(const SearchTask& task) const;
  void search(const SearchPlans& wanted);
  [[nodiscard]] bool over() const;

  const SimulationInput& input_;
  const SimulationNote& note_;
  GroundTruth truth_;
  SimulatedCluster cluster_;
  Verdict verdict_;
  std::optional<Tuning> tuning_;
  std::string saved_;  // what a coordinator would have stored; only where one is to die
  bool saves_ = false;
  std::string cluster_json_;
  std::deque<Action> actions_;
  std::deque<Event> events_;
  std::vector<MeasuredStep> measured_;
  std::int64_t last_drift_ = 0;
  double planning_seconds_ = 0;
  double longest_search_seconds_ = 0;
  std::uint64_t searches_ = 0;
};

void Simulation::take(std::vector<Action> actions) {
  for (Action& action : actions) actions_.push_back(std::move(action));
  if (tuning_->take_transition() && saves_) saved_ = to_json(state());
  const double seconds =
      std::chrono::duration<double>(cluster_.clock().wall()).count() - static_cast<double>(state().begun_wall_ns) / 1e9;
  for (const Note& one : tuning_->take_notes()) note_(seconds, one.kind, one.text);
  for (const MeasuredStep& step : tuning_->take_steps()) {
    if (measured_.size() < kStepsKept) measured_.push_back(step);
  }
  cluster_.set_incumbent(state().incumbent);
  verdict_.watch(state(), cluster_.spent());
}

void Simulation::feed(const Event& event) {
  take(tuning_->handle(event, now()));
}

// The coordinator dies and another begins where the state was stored last. Actions that were not carried out are lost.
Status Simulation::restart() {
  TRIMTAB_TRY(TuningState stored, parse_tuning_state(saved_));
  actions_.clear();
  events_.clear();
  tuning_.emplace(std::move(stored));
  take(tuning_->resume(now()));
  cluster_.introduce_nodes();
  return {};
}

SearchReply Simulation::plans(const SearchTask& task) const {
  if (input_.planner == "random") return random_plans(task, state().incumbent_measured.mean_ms);
  if (input_.planner == "hill-climb") return neighbouring_plans(task, state().incumbent_measured.mean_ms);
  if (input_.planner == "grid") return grid_plans(task, state().incumbent_measured.mean_ms, false);
  if (input_.planner == "grid-fast") return grid_plans(task, state().incumbent_measured.mean_ms, true);
  if (input_.planner == "sweep") return swept_plans(task, state().incumbent_measured.mean_ms);
  return plan_search(task, cluster_.clock(), [] { return false; });
}

void Simulation::search(const SearchPlans& wanted) {
  SearchTask task = tuning_->task_for(wanted.purpose);
  task.costs = input_.costs;
  task.max_evaluations = input_.evaluations;
  task.seed += input_.seed * 1000;
  const auto stopwatch = [this] {
    return input_.stopwatch == nullptr ? Nanoseconds{0} : input_.stopwatch->monotonic();
  };
  const Nanoseconds begin = stopwatch();
  SearchReply reply = plans(task);
  const double seconds = std::chrono::duration<double>(stopwatch() - begin).count();
  planning_seconds_ += seconds;
  ++searches_;
  longest_search_seconds_ = std::max(longest_search_seconds_, seconds);
  verdict_.first_answer(reply);
  events_.emplace_back(SearchFinished{wanted.number, std::move(reply)});
}

Status Simulation::carry_out(const Action& action) {
  if (const auto* wanted = std::get_if<SearchPlans>(&action)) {
    search(*wanted);
    return {};
  }
  if (!std::holds_alternative<CountCosts>(action)) return cluster_.carry_out(action);
  const auto known = static_cast<std::int32_t>(input_.costs.size());
  events_.emplace_back(CostsCounted{known, 0, {}, {}, "", ""});
  return {};
}

// Nothing more is decided: the rest of the job is only steps.
bool Simulation::over() const {
  if (is_final(state().phase) || state().doing == Doing::kHalted) return true;
  if (state().phase != Phase::kTraining || cluster_.drift_to_come()) return false;
  return last_drift_ == 0 || cluster_.step() > last_drift_ + kStepsAfterDrift;
}

Status Simulation::run() {
  take(tuning_->begin(now()));
  tuning_->set_calibration(input_.calibration_json);
  feed(NodesReady{cluster_.nodes(), cluster_json_, "simulated"});
  for (std::uint64_t round = 0; !over(); ++round) {
    if (round > kMostRounds)
      return unavailable("the simulated job stands still in phase " + std::string(to_string(state().phase)) +
                         "; this is a defect");
    if (!actions_.empty()) {
      const Action action = std::move(actions_.front());
      actions_.pop_front();
      TRIMTAB_TRY_STATUS(carry_out(action));
    } else if (!events_.empty()) {
      const Event event = std::move(events_.front());
      events_.pop_front();
      feed(event);
    } else if (const auto event = cluster_.next_event()) {
      feed(*event);
    } else {
      TRIMTAB_TRY_STATUS(cluster_.advance());
      if (cluster_.coordinator_died()) TRIMTAB_TRY_STATUS(restart());
    }
  }
  return {};
}

constexpr double kCautious = 0.92;      // of a device's memory: what people leave free
constexpr std::uint64_t kByHand = 300;  // plans that somebody may have looked at
constexpr std::size_t kPlansByHand = 20;

// What a short search on devices with less memory finds, the worst first.
Result<std::vector<Plan>> plans_by_hand(const SimulationInput& input, const Model& model, Cluster cluster) {
  for (Node& node : cluster.nodes) {
    node.memory_bytes = static_cast<Bytes>(kCautious * static_cast<double>(node.memory_bytes));
  }
  TRIMTAB_TRY(tuner::CostTable table, tuner::CostTable::build(model, cluster, input.costs, {true}));
  tuner::SearchOptions options;
  options.seed = input.seed;
  options.max_evaluations = kByHand;
  options.plans = kPlansByHand;
  TRIMTAB_TRY(const tuner::SearchOutcome outcome,
              tuner::search(tuner::NativeCostModel(std::move(table)), input.job.knobs, options));
  std::vector<Plan> plans;
  for (const RankedPlan& ranked : outcome.result.plans) plans.insert(plans.begin(), ranked.plan);
  return plans;
}

// A job that is to be tuned runs, so the plan that it begins with fits.
Result<std::string> initial_plan(const SimulationInput& input, const Model& model, const Cluster& cluster,
                                 GroundTruth& truth) {
  if (!input.job.initial_plan_json.empty()) return input.job.initial_plan_json;
  std::vector<Plan> plans = plain_plans(model, cluster, input.job.knobs, input.seed);
  TRIMTAB_TRY(const std::vector<Plan> by_hand, plans_by_hand(input, model, cluster));
  plans.insert(plans.end(), by_hand.begin(), by_hand.end());
  for (const Plan& plan : plans) {
    if (truth.price(plan).fits) return to_json(plan);
  }
  return no(
      "no plan to begin with was found that truly fits into memory; name one in the job file: initial_plan = ...");
}

struct TrueBest {
  double ms = 0;
  std::string plan_json;
};

// By the strategies that may find it, on the true costs.
Result<TrueBest> true_best(const SimulationInput& input, GroundTruth& truth, const TuningState& state) {
  TrueBest best{truth.price(*parse_plan(state.incumbent.json, "the incumbent")).ms, state.incumbent.json};
  for (const char* strategy : {"aceso", "unified"}) {
    tuner::SearchOptions options;
    options.strategy = strategy;
    options.seed = input.seed;
    options.max_evaluations = input.best_evaluations > 0 ? input.best_evaluations : 4 * input.evaluations;
    options.plans = 1;
    TRIMTAB_TRY(const tuner::SearchOutcome outcome, tuner::search(truth.cost_model(), input.job.knobs, options));
    if (outcome.result.plans.empty()) continue;
    const Plan& plan = outcome.result.plans.front().plan;
    const double ms = truth.price(plan).ms;
    if (ms < best.ms) best = {ms, to_json(plan)};
  }
  return best;
}

}  // namespace

std::vector<std::string_view> simulation_planners() {
  return {kPlanners.begin(), kPlanners.end()};
}

Result<SimulationOutcome> simulate(const SimulationInput& wanted, const SimulationNote& note) {
  SimulationInput input = wanted;
  if (std::find(kPlanners.begin(), kPlanners.end(), input.planner) == kPlanners.end()) {
    return bad_input("no planner '" + input.planner +
                     "'; there are tuner, random, hill-climb, grid, grid-fast and sweep");
  }
  TRIMTAB_TRY(const Model model, parse_model(input.model_json, "the model"));
  TRIMTAB_TRY(const Cluster cluster, parse_cluster(input.cluster_json, "the cluster"));
  auto truth = GroundTruth::make(model, cluster, input.costs, input.scenario.truth, input.seed);
  if (!truth.ok()) return wrap("the simulated cluster", truth.error());
  TRIMTAB_TRY(input.job.initial_plan_json, initial_plan(input, model, cluster, *truth));
  Simulation simulation(input, cluster, std::move(truth).value(), note);
  TRIMTAB_TRY_STATUS(simulation.run());
  const TuningState& state = simulation.state();
  if (state.phase == Phase::kFailed) return no("the simulated job failed: " + state.failure);
  if (state.doing == Doing::kHalted) return no("the simulated job was halted: " + state.failure);
  TRIMTAB_TRY(const TrueBest best, true_best(input, simulation.truth(), state));
  return SimulationOutcome{simulation.planning_seconds(), simulation.longest_search_seconds(), simulation.searches(),
                           simulation.judged(best.ms, best.plan_json), simulation.report()};
}

}  // namespace trimtab::coordinator
