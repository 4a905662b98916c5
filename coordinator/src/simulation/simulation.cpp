#include "coordinator/simulation.hpp"

#include <algorithm>
#include <utility>

#include "report.hpp"
#include "schema/device_memory.hpp"
#include "simulation/unmodelled_planner.hpp"
#include "simulation/verdict.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::string_view kTuner = "tuner";
constexpr std::int64_t kStepsToNotice = 400;       // that steps may need to tell of a drift
constexpr int kTimesLasting = 6;                   // as long as a change must last, on a busy machine
constexpr int kLooksToNotice = 4;                  // that looks may need, where steps do not tell
constexpr std::uint64_t kMostRounds = 50'000'000;  // of the loop: more is a machine that stands still
constexpr std::size_t kStepsKept = 20'000;         // measured steps of the report

// Than it was: the steps of a plan that avoids it do not tell.
bool recovers(const DriftSettings& drift, const std::vector<DriftSettings>& all) {
  return std::ranges::any_of(all, [&drift](const DriftSettings& before) {
    const bool same = before.kind == drift.kind && before.device == drift.device && before.level == drift.level &&
                      before.node == drift.node && before.peer == drift.peer;
    const bool faster = before.share < drift.share || before.latency_us > drift.latency_us;
    return same && before.at_step < drift.at_step && faster;
  });
}

class Simulation {
 public:
  Simulation(const SimulationInput& input, GroundTruth truth, const SimulationNote& note)
      : input_(input),
        note_(note),
        truth_(std::move(truth)),
        cluster_(input.cluster, truth_, input.scenario, input.job.steps, input.seed * 2 + 1),
        verdict_(truth_),
        tuning_(begin_state(input)) {
    for (const DriftSettings& drift : input.scenario.drift) {
      last_drift_ = std::max(last_drift_, drift.at_step);
      recovers_ = recovers_ || recovers(drift, input.scenario.drift);
      saves_ = saves_ || drift.kind == "coordinator";
    }
  }

  [[nodiscard]] Result<SimulationOutcome> run();

 private:
  static TuningState begin_state(const SimulationInput& input) {
    TuningState state;
    state.job = input.job;
    state.job.elastic = input.elastic;
    state.job.world_size = input.cluster.devices();
    state.job.model_json = to_json(input.model);
    state.job.benchmark = {"simulated"};  // its costs are there, so it has a plan in mode observe, too
    return state;
  }
  [[nodiscard]] const TuningState& state() const { return tuning_->state(); }
  [[nodiscard]] Status run_job();
  [[nodiscard]] Moment now() const { return {cluster_.clock().monotonic(), cluster_.clock().wall()}; }
  void take(Outcome told);
  void feed(const Event& event);
  [[nodiscard]] Status restart();
  [[nodiscard]] Status carry_out(const Action& action);
  void search(const SearchPlans& wanted);
  [[nodiscard]] bool offer_nodes();
  [[nodiscard]] bool node_to_come() const;
  [[nodiscard]] bool past_drift() const;
  [[nodiscard]] bool over() const;

  const SimulationInput& input_;
  const SimulationNote& note_;
  GroundTruth truth_;
  SimulatedCluster cluster_;
  Verdict verdict_;
  std::optional<Tuning> tuning_;
  std::string saved_;  // what a coordinator would have stored; only where one is to die
  bool saves_ = false;
  std::deque<Action> actions_;
  std::deque<Event> events_;
  std::vector<MeasuredStep> measured_;
  std::int64_t last_drift_ = 0;
  std::string offered_;    // nodes beyond the job's that were looked at last (LargerPlacement::key)
  bool recovers_ = false;  // something gets faster
  SimulationOutcome outcome_;
};

void Simulation::take(Outcome told) {
  std::ranges::move(told.actions, std::back_inserter(actions_));
  if (told.changed && saves_) saved_ = to_json(state());
  const double seconds =
      std::chrono::duration<double>(cluster_.clock().wall()).count() - static_cast<double>(state().begun_wall_ns) / 1e9;
  for (const Note& one : told.notes) note_(seconds, one.kind, one.text);
  for (const MeasuredStep& step : told.steps) {
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

void Simulation::search(const SearchPlans& wanted) {
  SearchTask task = tuning_->search_task(wanted.purpose);
  task.costs = input_.costs;
  task.max_evaluations = input_.evaluations;
  task.seed += input_.seed * 1000;
  const auto stopwatch = [this] {
    return input_.stopwatch == nullptr ? Nanoseconds{0} : input_.stopwatch->monotonic();
  };
  const Nanoseconds begin = stopwatch();
  SearchReply reply = input_.planner == kTuner
                          ? plan_search(task, cluster_.clock(), [] { return false; })
                          : unmodelled_plans(input_.planner, task, state().incumbent_measured.mean_ms);
  const double seconds = std::chrono::duration<double>(stopwatch() - begin).count();
  outcome_.planning_seconds += seconds;
  ++outcome_.searches;
  outcome_.longest_search_seconds = std::max(outcome_.longest_search_seconds, seconds);
  verdict_.first_answer(reply);
  events_.emplace_back(SearchFinished{wanted.number, std::move(reply)});
}

Status Simulation::carry_out(const Action& action) {
  if (const auto* wanted = std::get_if<SearchPlans>(&action)) {
    search(*wanted);
    return {};
  }
  if (const auto* launch = std::get_if<LaunchOn>(&action)) {
    // Of an earlier one the job has changed its mind since.
    if (launch->launch != state().launch) return {};
    TRIMTAB_TRY_STATUS(cluster_.run_on(state().nodes));
  }
  if (!std::holds_alternative<CountCosts>(action)) return cluster_.carry_out(action);
  const auto known = static_cast<std::int32_t>(input_.costs.size());
  events_.emplace_back(CostsCounted{known, 0, {}, {}, "", ""});
  return {};
}

// The last drift could have been noticed by now, and whatever was noticed has been answered: a job that was tuned again
// a short while ago waits before it is once more.
bool Simulation::past_drift() const {
  if (last_drift_ == 0) return true;
  const std::vector<Drift>& noticed = state().hardware.drifts;
  const bool waits = state().job.mode != JobMode::kObserve && !noticed.empty() && !noticed.back().handled;
  const Nanoseconds looks = recovers_ ? kLooksToNotice * state().job.trials.look_every : Nanoseconds{0};
  return !waits && cluster_.step() > last_drift_ + kStepsToNotice &&
         cluster_.clock().monotonic() > cluster_.drifted_at() + looks + kTimesLasting * state().job.trials.lasting;
}

// As JobRun::offer_nodes. False where there was nothing to offer.
bool Simulation::offer_nodes() {
  if (!tuning_->takes_nodes()) return false;
  const auto larger = cluster_.place_more(state().job.world_size, state().nodes);
  if (!larger || larger->key == offered_) return false;
  offered_ = larger->key;
  const std::string& hardware = state().hardware.costs_hardware;
  feed(describe_joining(*larger, hardware.empty() ? larger->cluster.nodes.front().fingerprint : hardware,
                        cluster_.probed(larger->cluster).probes));
  return true;
}

// A node that the job lacks may yet come, while it trains.
bool Simulation::node_to_come() const {
  const TuningState& now = state();
  if (!now.job.elastic || now.world_size() >= now.job.world_size) return false;
  const auto larger = cluster_.place_more(now.job.world_size, now.nodes);
  if (larger && larger->key != offered_) return true;
  const double left_ms = static_cast<double>(now.job.steps - now.step) * now.incumbent_measured.mean_ms;
  const auto next = cluster_.next_return();
  return next && milliseconds(*next - cluster_.clock().monotonic()) < left_ms;
}

// Nothing more is decided: the rest of the job is only steps.
bool Simulation::over() const {
  if (is_final(state().phase) || state().doing == Doing::kHalted) return true;
  return state().phase == Phase::kTraining && !cluster_.drift_to_come() && past_drift() && !node_to_come();
}

Status Simulation::run_job() {
  take(tuning_->begin(now()));
  tuning_->set_calibration(input_.calibration_json);
  feed(NodesReady{cluster_.nodes(), input_.cluster, input_.cluster.nodes.front().fingerprint});
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
    } else if (!offer_nodes()) {
      TRIMTAB_TRY_STATUS(cluster_.advance());
      if (cluster_.coordinator_died()) TRIMTAB_TRY_STATUS(restart());
    }
  }
  return {};
}

Result<SimulationOutcome> Simulation::run() {
  TRIMTAB_TRY_STATUS(run_job());
  if (state().phase == Phase::kFailed) return no("the simulated job failed: " + state().failure);
  if (state().doing == Doing::kHalted) return no("the simulated job was halted: " + state().failure);
  TRIMTAB_TRY(const TrueBest best, true_best(input_, truth_, state()));
  outcome_.verdict = verdict_.judge(state(), cluster_.spent(), best);
  outcome_.simulation_json = verdict_.json(outcome_.verdict, input_, state(), best);
  outcome_.report_json = report_json(state(), "", measured_);
  return outcome_;
}

}  // namespace

std::vector<std::string_view> simulation_planners() {
  std::vector<std::string_view> planners = unmodelled_planners();
  planners.insert(planners.begin(), kTuner);
  return planners;
}

Result<SimulationOutcome> simulate(const SimulationInput& wanted, const SimulationNote& note) {
  SimulationInput input = wanted;
  const std::vector<std::string_view> planners = simulation_planners();
  if (std::ranges::find(planners, input.planner) == planners.end()) {
    return bad_input("no planner '" + input.planner +
                     "'; there are tuner, random, hill-climb, grid, grid-fast and sweep");
  }
  for (Node& node : input.cluster.nodes) {
    if (node.fingerprint.empty()) node.fingerprint = "simulated";  // a replaced one's is another
    node.memory_bytes = device_memory(input.job, node.memory_bytes);
  }
  auto truth = GroundTruth::make(input.model, input.cluster, input.costs, input.scenario.truth, input.seed);
  if (!truth.ok()) return wrap("the simulated cluster", truth.error());
  TRIMTAB_TRY(input.job.initial_plan_json, initial_plan(input, *truth));
  return Simulation(input, std::move(truth).value(), note).run();
}

}  // namespace trimtab::coordinator
