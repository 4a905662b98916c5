#include <time.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/clock.hpp"
#include "base/numbers.hpp"
#include "budget.hpp"
#include "coordinator/simulation.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "jobs/interrupt.hpp"
#include "plans/priced_inputs.hpp"
#include "plans/simulation_text.hpp"
#include "report/html.hpp"
#include "report/text.hpp"
#include "schema/job.hpp"
#include "schema/target.hpp"
#include "verbs/verb.hpp"

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

Result<coordinator::SimulationInput> read_input(const Arguments& arguments) {
  coordinator::SimulationInput input;
  TRIMTAB_TRY(const Model model, read_model(arguments.model));
  TRIMTAB_TRY(Cluster cluster, read_cluster(arguments.cluster));
  TRIMTAB_TRY(Costs costs, read_costs(arguments.costs, arguments.fingerprint, &cluster, arguments.calibration));
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
  input.model_json = to_json(model);
  input.cluster_json = to_json(cluster);
  input.costs = std::move(costs.costs);
  return input;
}

Status write_reports(const std::string& directory, const coordinator::SimulationOutcome& outcome) {
  TRIMTAB_TRY_STATUS(make_directories(directory));
  TRIMTAB_TRY_STATUS(write_file(directory + "/simulation.json", outcome.simulation_json));
  TRIMTAB_TRY_STATUS(write_file(directory + "/report.json", outcome.report_json));
  TRIMTAB_TRY(const ReportData report, parse_report(outcome.report_json, "the simulated job's report"));
  return write_file(directory + "/report.html", report_html(report));
}

Result<int> simulate(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(coordinator::SimulationInput input, read_input(arguments));
  const ProcessorClock stopwatch;
  input.stopwatch = &stopwatch;
  const auto say = [&](double seconds, const std::string& kind, const std::string& text) {
    if (!arguments.quiet) console.err << simulation_line(seconds, kind, text);
  };
  TRIMTAB_TRY(const coordinator::SimulationOutcome outcome, coordinator::simulate(input, say));
  if (!arguments.out.empty()) TRIMTAB_TRY_STATUS(write_reports(arguments.out, outcome));
  if (arguments.json) {
    console.out << timed_simulation(outcome) << "\n";
    return 0;
  }
  TRIMTAB_TRY(const ReportData report, parse_report(outcome.report_json, "the simulated job's report"));
  TRIMTAB_TRY(const std::string verdict, simulation_text(outcome.simulation_json));
  console.out << report_text(report) << "\n" << verdict << planning_text(outcome);
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
  add_value(verb, "--model", arguments->model, "FILE", "model.json")->required();
  add_value(verb, "--cluster", arguments->cluster, "FILE", "cluster.json")->required();
  add_value(verb, "--costs", arguments->costs, "FILE", "Cost database: what the tuner believes")->required();
  add_value(verb, "--fingerprint", arguments->fingerprint, "HASH",
            "Whose costs, where the database has several (a prefix will do)");
  add_value(verb, "--calibration", arguments->calibration, "JOB", "Begin with what this job's trials have taught");
  add_value(verb, "--job", arguments->job, "FILE",
            "job.toml: its knobs, trials, steps and memory limit (default: auto, 5000 steps, 12 trials)");
  add_value(verb, "--scenario", arguments->scenario, "FILE", "TOML: truth, noise, switching and drift");
  add_value(verb, "--seed", arguments->seed, "N", "Of the hidden truth and of all noise")->capture_default_str();
  add_value(verb, "--steps", arguments->steps, "N", "Of the job (default: as the job says)");
  add_value(verb, "--planner", arguments->planner, joined(coordinator::simulation_planners()),
            "Who proposes plans: the tuner, or one without a model of time to compare it with")
      ->capture_default_str();
  add_value(verb, "--budget", arguments->budget, "Nev", "Evaluations of each search")->capture_default_str();
  add_value(verb, "--best-budget", arguments->best_budget, "Nev",
            "Evaluations of the search for the true best (default: four times --budget)");
  add_value(verb, "--out", arguments->out, "DIR", "Where simulation.json, report.json and report.html go");
  verb->add_flag("--quiet", arguments->quiet, "Say nothing on the way");
  add_json(verb, arguments->json);
  verb->callback([arguments, &selection] {
    selection.action = [arguments](Console& console) { return simulate(*arguments, console); };
  });
}

}  // namespace trimtab::cli
