// What calibration does to predictions of plans that it was not fitted to; writes bench/results/calibration.md:
//
//   build/release/bin/calibration_table [SEEDS [EVALUATIONS]] > bench/results/calibration.md
//
// Run at the root of the repository: recorded steps are read from its reports. Simulated jobs are the coordinator's own
// (docs/simulation.md), so that plans are those which the tuner tried.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "../tests/tuner/gpt_world.hpp"
#include "coordinator/simulation.hpp"
#include "schema/cluster.hpp"
#include "schema/model.hpp"
#include "tuner/calibration.hpp"

using namespace trimtab;
using nlohmann::json;

namespace {

// A measured step beside what the costs alone say of it.
struct Step {
  double predicted_ms = 0;
  double measured_ms = 0;
  double sigma_ms = 0;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().empty()) {
    std::fprintf(stderr, "calibration_table: %s: needed, and not there: run at the root of the repository\n",
                 path.c_str());
    std::exit(2);
  }
  return text.str();
}

// What the chart of a report says of each plan.
std::vector<Step> steps_of_page(const std::string& path) {
  const std::regex title(
      "<title>[^<]*: predicted ([0-9.]+) ms by the costs alone, measured ([0-9.]+) ms \\(([0-9.]+) ms to ([0-9.]+) "
      "ms\\)");
  std::vector<Step> steps;
  const std::string page = text_of(path);
  for (std::sregex_iterator found(page.begin(), page.end(), title), end; found != end; ++found) {
    const auto number = [&](std::size_t i) { return std::stod((*found)[i]); };
    steps.push_back({number(1), number(2), (number(4) - number(3)) / 2 / 1.96});
  }
  return steps;
}

std::vector<Step> steps_of_report(const std::string& path) {
  const json report = json::parse(text_of(path));
  std::vector<Step> steps;
  const auto add = [&](const json& of) {
    const json& measured = of["measured_ms"];
    if (measured["steps"].get<int>() == 0) return;
    const double width = measured["high"].get<double>() - measured["low"].get<double>();
    steps.push_back({of["predicted_before_calibration_ms"], measured["mean"], width / 2 / 1.96});
  };
  add(report["initial"]);
  for (const json& trial : report["trials"]) add(trial);
  return steps;
}

// All of a step's time counts as computing: reports do not say more.
tuner::Observation observation_of(const Step& step) {
  tuner::Observation seen;
  seen.prediction.iteration_ms = seen.prediction.computation_share_ms = step.predicted_ms;
  seen.measured_ms = step.measured_ms;
  seen.measured_sigma_ms = step.sigma_ms;
  return seen;
}

double error_of(const Step& step, const std::vector<Step>& others) {
  std::vector<tuner::Observation> seen;
  for (const Step& other : others) seen.push_back(observation_of(other));
  const tuner::Calibration learnt = tuner::calibrate(seen);
  return std::abs((learnt.computation.value * step.predicted_ms + learnt.fixed_ms) / step.measured_ms - 1);
}

struct Errors {
  double without = 0;
  double in_order = 0;     // each by what the ones before it taught
  double of_left_out = 0;  // without, of all
  double applied = 0;      // each by what all others teach, where what all teach is applied
  double repeated = 0;     // each by what all others teach and apply
};

Errors errors_of(const std::vector<Step>& steps) {
  Errors errors;
  std::vector<tuner::Observation> all;
  for (const Step& step : steps) all.push_back(observation_of(step));
  errors.applied = tuner::calibrate(all).left_out_error;
  const auto count = static_cast<double>(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<Step> others = steps;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double alone = std::abs(steps[i].predicted_ms / steps[i].measured_ms - 1);
    errors.of_left_out += alone / count;
    errors.repeated += error_of(steps[i], others) / count;
    if (i == 0) continue;
    errors.without += alone / (count - 1);
    errors.in_order +=
        error_of(steps[i], {steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(i)}) / (count - 1);
  }
  return errors;
}

void print_recorded(const char* name, const std::vector<Step>& steps) {
  const Errors errors = errors_of(steps);
  std::printf("| %s | %zu | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", name, steps.size(),
              100 * errors.of_left_out, 100 * errors.applied, 100 * errors.repeated, 100 * errors.without,
              100 * errors.in_order);
}

struct World {
  const char* name;
  coordinator::TruthSettings truth;
  bool spoilt_prior = false;
};

std::vector<World> worlds() {
  coordinator::TruthSettings right;
  right.error = right.operators = right.spread = right.way = right.plan = 0;
  right.computation = right.communication = right.overlap = right.memory = 1;
  coordinator::TruthSettings by_plan = right;
  by_plan.way = coordinator::TruthSettings{}.way;
  by_plan.plan = coordinator::TruthSettings{}.plan;
  coordinator::TruthSettings wrong;
  wrong.way = wrong.plan = 0;
  return {{"costs right, noise alone", right},
          {"costs right, plans off by themselves", by_plan},
          {"costs wrong", wrong},
          {"costs wrong, plans off by themselves", {}},
          {"costs right, an earlier job's factors wrong", right, true}};
}

coordinator::SimulationInput input_of(const World& world, std::uint64_t seed, std::uint64_t evaluations) {
  const tuner::test::Workload work = tuner::test::gpt(8, 4, 32);
  coordinator::SimulationInput input;
  input.model = work.model;
  input.cluster = work.cluster;
  input.costs = work.costs;
  input.job.name = "job";
  input.job.mode = JobMode::kAuto;
  input.job.world_size = 4;
  input.job.steps = 20'000;
  input.scenario.truth = world.truth;
  input.seed = seed;
  input.evaluations = evaluations;
  input.best_evaluations = evaluations;
  if (world.spoilt_prior) {
    tuner::Calibration earlier;
    earlier.computation = {seed % 2 == 0 ? 1.25 : 0.8, 0.02};
    earlier.communication = {1.3, 0.1};
    earlier.observations = 5;
    input.calibration_json = tuner::to_json(earlier);
  }
  return input;
}

struct Sums {
  int jobs = 0;
  int plans = 0;
  double before = 0;  // by job
  double after = 0;
  double alone = 0;
  double left_out = 0;
  int worse = 0;  // jobs whose later predictions were
  int above = 0;  // jobs whose left out error is above that of the costs
  int near = 0;
  int covered = 0;
  int measured = 0;
};

void add(const coordinator::SimulationOutcome& done, Sums& sums) {
  const json report = json::parse(done.report_json);
  const json verdict = json::parse(done.simulation_json);
  const json& error = report["prediction_error"];
  ++sums.jobs;
  sums.plans += error["plans"].get<int>();
  const auto before = error["before_calibration"].get<double>();
  const auto after = error["after_calibration"].get<double>();
  sums.before += before;
  sums.after += after;
  sums.worse += after > before + 0.005 ? 1 : 0;
  const auto calibration = tuner::parse_calibration(report["calibration"].dump());
  if (!calibration.ok()) std::exit(2);
  sums.alone += calibration->left_out_error_of_costs;
  sums.left_out += calibration->left_out_error;
  sums.above += calibration->left_out_error > calibration->left_out_error_of_costs ? 1 : 0;
  sums.near += verdict["regret"].get<double>() <= 0.02 ? 1 : 0;
  sums.covered += verdict["predictions_covered"].get<int>();
  sums.measured += verdict["measured_trials"].get<int>();
}

void print_world(const World& world, std::uint64_t seeds, std::uint64_t evaluations) {
  Sums sums;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto done =
        coordinator::simulate(input_of(world, seed, evaluations), [](double, const auto&, const auto&) {});
    if (!done.ok()) {
      std::fprintf(stderr, "calibration_table: %s, seed %llu: %s\n", world.name, static_cast<unsigned long long>(seed),
                   done.error().message.c_str());
      std::exit(2);
    }
    add(*done, sums);
  }
  const double jobs = sums.jobs;
  std::printf("| %s | %d | %d | %.2f %% | %.2f %% | %d | %.2f %% | %.2f %% | %d | %.0f %% | %.0f %% |\n", world.name,
              sums.jobs, sums.plans, 100 * sums.alone / jobs, 100 * sums.left_out / jobs, sums.above,
              100 * sums.before / jobs, 100 * sums.after / jobs, sums.worse,
              100.0 * sums.covered / std::max(sums.measured, 1), 100.0 * sums.near / jobs);
}

std::uint64_t number(int argc, char** argv, int i, std::uint64_t otherwise) {
  if (i >= argc) return otherwise;
  const std::string text = argv[i];
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value > 0 ? value : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seeds = number(argc, argv, 1, 100);
  const std::uint64_t evaluations = number(argc, argv, 2, 600);
  std::printf(
      "# Calibration held to plans that it has not seen\n\nMade by `build/release/bin/calibration_table %llu "
      "%llu`.\n\n",
      static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(evaluations));
  std::printf(
      "Mean relative errors of predicted steps. \"Left out\": each plan predicted by what all other plans of the job "
      "teach, the\nchoice of factors included, where calibration applies what all of them teach, else by the costs. "
      "\"Choice repeated\": whether\nanything is applied is decided without the plan, too, so that of a few plans one "
      "fewer decides.\n\"Before it ran\": each plan but the first predicted from those that had run, which is what a "
      "report "
      "calls\n"
      "`prediction_error`.\n\n## Recorded steps\n\nReports have each plan's time by the costs alone and as measured, "
      "not what it is "
      "made of: all of it counts as\ncomputing here, so a factor of computing and a fixed time are all that can be "
      "learnt.\n\n"
      "| steps | plans | left out, by the costs | calibrated | choice repeated | before it ran, by the costs | "
      "calibrated |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  print_recorded("main job ([report.json](../../docs/report.json))", steps_of_report("docs/report.json"));
  print_recorded("netns example, 100 Mbit/s ([tuned.html](../../examples/netns/tuned.html))",
                 steps_of_page("examples/netns/tuned.html"));
  print_recorded("one H100 ([report.html](../../examples/gpt-gpu/report.html))",
                 steps_of_page("examples/gpt-gpu/report.html"));
  print_recorded("sample report ([report.json](../../tests/cli/fixtures/report.json))",
                 steps_of_report("tests/cli/fixtures/report.json"));
  std::printf(
      "\n## Simulated jobs\n\nA GPT of 8 layers on 4 devices, at most 8 trials a job; noise of steps as `trimtab "
      "simulate` has it. "
      "Plans off by\nthemselves: `way` and `plan` of docs/simulation.md. \"Above\": jobs whose left out error is above "
      "that of the "
      "costs.\n\"Worse\": jobs whose predictions before plans ran were off by half a per cent or more beyond the "
      "costs'. Held: "
      "intervals\nthat held the truth.\n\n"
      "| world | jobs | plans | left out, by the costs | calibrated | above | before it ran, by the costs | calibrated "
      "| worse | "
      "held | within 2 %% of the best |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const World& world : worlds()) print_world(world, seeds, evaluations);
  return 0;
}
