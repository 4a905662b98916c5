#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "base/numbers.hpp"
#include "coordinator/simulation.hpp"
#include "files.hpp"
#include "plans/priced_inputs.hpp"
#include "report/report.hpp"
#include "schema/target.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string model;
  std::string cluster;
  std::string costs;
  std::string fingerprint;
  std::string calibration;
  std::string job;
  std::string scenario;
  std::string seed = "1";
  std::string steps;
  std::string planner = "tuner";
  std::string budget = "20000ev";
  std::string best_budget;
  std::string out;
  bool quiet = false;
  bool json = false;
};

// What this process has computed: a simulation has one thread and waits for nothing, so that this is what planning
// takes on a machine that does nothing else.
class ProcessorClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds monotonic() const override {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + Nanoseconds(now.tv_nsec);
  }
  [[nodiscard]] Nanoseconds wall() const override { return monotonic(); }
};

// A job that lets Trimtab do everything: what a simulated job is unless a file says otherwise.
Job usual_job(const Model& model) {
  Job job;
  job.name = "simulated-" + model.name;
  job.mode = JobMode::kAuto;
  job.steps = 5000;
  job.trials.max_trials = 12;
  job.trials.deadline = std::chrono::hours(1);
  return job;
}

Result<Job> job_of(const Arguments& arguments, const Model& model) {
  Job job = usual_job(model);
  if (!arguments.job.empty()) {
    TRIMTAB_TRY(job, load_job(arguments.job));
    job.knobs = within_target(job.knobs, job.target);  // as the coordinator does
  }
  if (arguments.steps.empty()) return job;
  TRIMTAB_TRY(const std::uint64_t steps, parse_count("--steps", arguments.steps));
  if (steps == 0) return bad_input("--steps: needs at least 1");
  job.steps = static_cast<std::int64_t>(steps);
  return job;
}

Result<std::uint64_t> evaluations_of(const std::string& flag, const std::string& text) {
  TRIMTAB_TRY(const Budget budget, parse_budget(text));
  if (budget.evaluations > 0) return budget.evaluations;
  return bad_input(flag + ": a simulation is repeatable only on a budget of evaluations, such as 20000ev, not '" +
                   text + "'");
}

Result<coordinator::SimulationInput> read_input(const Arguments& arguments, std::ostream& remarks) {
  coordinator::SimulationInput input;
  TRIMTAB_TRY(const Model model, read_model(arguments.model));
  TRIMTAB_TRY(Cluster cluster, read_cluster(arguments.cluster));
  TRIMTAB_TRY(Costs costs,
              read_costs(arguments.costs, arguments.fingerprint, &cluster, arguments.calibration, remarks));
  TRIMTAB_TRY(input.job, job_of(arguments, model));
  if (!arguments.scenario.empty()) {
    TRIMTAB_TRY(const std::string text, read_file(arguments.scenario));
    TRIMTAB_TRY(input.scenario, coordinator::parse_scenario(text, arguments.scenario));
  }
  TRIMTAB_TRY_STATUS(check_choice("--planner", arguments.planner, coordinator::simulation_planners()));
  TRIMTAB_TRY(input.seed, parse_count("--seed", arguments.seed));
  TRIMTAB_TRY(input.evaluations, evaluations_of("--budget", arguments.budget));
  if (!arguments.best_budget.empty()) {
    TRIMTAB_TRY(input.best_evaluations, evaluations_of("--best-budget", arguments.best_budget));
  }
  if (!arguments.calibration.empty()) input.calibration_json = tuner::to_json(costs.calibration);
  input.planner = arguments.planner;
  input.model = model;
  input.cluster = std::move(cluster);
  input.costs = std::move(costs.costs);
  return input;
}

std::string verdict_text(const coordinator::SimulationVerdict& of) {
  const auto factor = [](double value) { return format_fixed(value, 2); };
  std::string text = "hidden truth: computation x " + factor(of.truth.computation) + ", communication x " +
                     factor(of.truth.communication) + ", overlap x " + factor(of.truth.overlap) + ", memory x " +
                     factor(of.truth.memory) + "\n";
  text += "truly: initial plan " + format_ms(of.initial_true_ms) + ", adopted " + format_ms(of.adopted_true_ms) +
          ", best known " + format_ms(of.best_true_ms) + ": regret " + format_percent(of.regret) + "\n";
  text += std::to_string(of.trials) + " trials, " + std::to_string(of.adoptions) + " adopted, " +
          std::to_string(of.false_adoptions) + " of them truly no faster; " + std::to_string(of.out_of_memory_trials) +
          " ran out of memory\n";
  text += of.trials_to_goal < 0
              ? "not within 2 % of the best known\n"
              : "within 2 % of the best known after " + std::to_string(of.trials_to_goal) + " trials\n";
  text += "overhead: " + format_percent(of.overhead_share) + " of the job's time, " +
          format_number(of.overhead_device_hours, 3) + " device hours\n";
  return text;
}

// "   12.3 min  trial    trial 2 rejected: …\n"
std::string simulation_line(double seconds, const std::string& kind, const std::string& text) {
  return padded(format_ms(seconds * 1e3), 9, true) + "  " + padded(kind, 8, false) + " " + text + "\n";
}

// The processor time that planning took: the one thing in a simulation that differs from run to run.
std::string planning_text(const coordinator::SimulationOutcome& outcome) {
  return "planning: " + format_ms(1e3 * outcome.planning_seconds) + " of processor time in " +
         std::to_string(outcome.searches) + " searches, at most " + format_ms(1e3 * outcome.longest_search_seconds) +
         " in one\n";
}

// outcome.simulation_json with that under "planning".
std::string timed_simulation(const coordinator::SimulationOutcome& outcome) {
  auto document = nlohmann::json::parse(outcome.simulation_json);
  document["planning"] = {{"seconds", outcome.planning_seconds},
                          {"longest_search_seconds", outcome.longest_search_seconds},
                          {"searches", outcome.searches}};
  return document.dump(2);
}

Result<int> simulate(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(coordinator::SimulationInput input, read_input(arguments, console.err));
  const ProcessorClock stopwatch;
  input.stopwatch = &stopwatch;
  const auto say = [&](double seconds, const std::string& kind, const std::string& text) {
    if (!arguments.quiet) console.err << simulation_line(seconds, kind, text);
  };
  TRIMTAB_TRY(const coordinator::SimulationOutcome outcome, coordinator::simulate(input, say));
  constexpr const char* kSource = "the simulated job's report";
  if (!arguments.out.empty()) {
    TRIMTAB_TRY_STATUS(make_directories(arguments.out));
    TRIMTAB_TRY_STATUS(replace_file(arguments.out + "/simulation.json", outcome.simulation_json));
    TRIMTAB_TRY(const ReportData written, write_report(arguments.out, outcome.report_json, kSource));
  }
  if (arguments.json) {
    console.out << timed_simulation(outcome) << "\n";
    return 0;
  }
  TRIMTAB_TRY(const ReportData report, parse_report(outcome.report_json, kSource));
  console.out << report_text(report) << "\n" << verdict_text(outcome.verdict) << planning_text(outcome);
  if (!arguments.out.empty()) {
    console.out << "report: " << arguments.out << "/report.html, report.json and simulation.json\n";
  }
  return 0;
}

}  // namespace

void add_simulate(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "simulate", "Tune a job on a simulated cluster whose true costs nobody is told",
                            "trimtab simulate --model model.json --cluster cluster.json --costs costs.db --seed 1 "
                            "--scenario scenario.toml");
  add_value(verb, "--model", arguments->model, "FILE", "model.json", Need::kRequired);
  add_value(verb, "--cluster", arguments->cluster, "FILE", "cluster.json", Need::kRequired);
  add_value(verb, "--costs", arguments->costs, "FILE", "Cost database: what the tuner believes", Need::kRequired);
  add_value(verb, "--fingerprint", arguments->fingerprint, "HASH",
            "Whose costs, where the database has several (a prefix will do)");
  add_value(verb, "--calibration", arguments->calibration, "JOB", "Begin with what this job's trials have taught");
  add_value(verb, "--job", arguments->job, "FILE",
            "job.toml: its knobs, trials, steps and memory limit (default: auto, 5000 steps, 12 trials)");
  add_value(verb, "--scenario", arguments->scenario, "FILE", "TOML: truth, noise, switching and drift");
  add_value(verb, "--seed", arguments->seed, "N", "Of the hidden truth and of all noise", Need::kHasDefault);
  add_value(verb, "--steps", arguments->steps, "N", "Of the job (default: as the job says)");
  add_value(verb, "--planner", arguments->planner, joined(coordinator::simulation_planners(), "|"),
            "Who proposes plans: the tuner, or one without a model of time to compare it with", Need::kHasDefault);
  add_value(verb, "--budget", arguments->budget, "Nev", "Evaluations of each search", Need::kHasDefault);
  add_value(verb, "--best-budget", arguments->best_budget, "Nev",
            "Evaluations of the search for the true best (default: four times --budget)");
  add_value(verb, "--out", arguments->out, "DIR", "Where simulation.json, report.json and report.html go");
  add_flag(verb, "--quiet", arguments->quiet, "Say nothing on the way");
  add_action(verb, selection, arguments, simulate);
}

}  // namespace trimtab::cli
