// Simulated jobs with knobs of their own, tuned by the coordinator's own tuning machine: each line of standard input is
// a job (bench/own_knobs/beside_optuna.py says of what), each line of standard output what came of it.

#include <cmath>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "coordinator/fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;

namespace {

// A step's true time under all settings, and what a machine adds to it.
class Machine {
 public:
  explicit Machine(const json& job)
      : written_(job["written"]),
        ms_(job["ms"]),
        seed_(job["seed"]),
        launch_noise_(job["launch_noise"]),
        drift_(job["drift"]),
        drift_s_(job["drift_s"]) {
    for (const json& key : job["keys"]) keys_.push_back(key);
  }

  [[nodiscard]] double true_ms(const OwnSettings& own) const {
    std::string name;
    for (const std::string& key : keys_) {
      const auto found = own.find(key);
      name += (name.empty() ? "" : "|") + (found == own.end() ? written_.at(key) : found->second);
    }
    return ms_.at(name);
  }

  // As it is in this launch, at this time.
  [[nodiscard]] double factor(int launch, double seconds) const {
    const double launch_part = Random(seed_ * 1000003 + static_cast<std::uint64_t>(launch)).normal();
    return std::exp(launch_noise_ * launch_part) *
           (1 + drift_ * std::sin(2 * std::numbers::pi * (seconds / drift_s_ + static_cast<double>(seed_ % 7) / 7)));
  }

 private:
  std::map<std::string, std::string> written_;
  std::map<std::string, double> ms_;
  std::vector<std::string> keys_;
  std::uint64_t seed_;
  double launch_noise_, drift_, drift_s_;
};

Job job_of(const json& given) {
  Job job = fake_job(JobMode::kAuto);
  job.describe.clear();
  job.benchmark.clear();
  job.delivery = Delivery::kRestart;
  job.allow_restarts = true;
  job.checkpoint = "/saved";
  job.train = {"train", "--out", "{checkpoint}"};
  job.steps = 1000000;
  job.trials.max_trials = given["trials"];
  for (const auto& [key, value] : given["written"].items()) {
    if (key.starts_with("env:")) job.environment[key.substr(4)] = value.get<std::string>();
  }
  for (const json& text : given["knobs"]) {
    auto knob = parse_own_knob(text);
    TRIMTAB_ASSERT(knob.ok(), "a knob of the bench can be read");
    job.own_knobs.push_back(std::move(*knob));
  }
  for (const auto& [knob, condition] : given["when"].items()) {
    const Status added = add_condition(job.own_knobs.at(std::stoul(knob)), {condition});
    TRIMTAB_ASSERT(added.ok(), "a condition of the bench can be read");
  }
  return job;
}

OwnSettings settings_of(const PlanText& text) {
  if (text.empty()) return {};
  const auto plan = parse_plan(text.json, "a plan");
  TRIMTAB_ASSERT(plan.ok(), "a plan of the machine's can be read");
  return plan->own;
}

// Seconds in which the job trained no new step of its own, and when the plan that it keeps was good enough.
struct Account {
  double spent_s = 0;
  double reached_s = -1;
};

json run(const json& given) {
  const Machine machine(given);
  FakeWorld world(job_of(given), {}, given["seed"], given["noise"]);
  world.faults.saves_every = 50;
  const auto seconds = [&] { return std::chrono::duration<double>(world.clock.monotonic()).count(); };
  world.own_ms = [&](const OwnSettings& own) {
    return machine.true_ms(own) * machine.factor(world.launches(), seconds());
  };
  Account account;
  double last_s = 0;
  std::size_t own_steps = 0;
  const double good_ms = given["best_ms"].get<double>() * 1.02;
  world.after_event = [&] {
    const bool useful = world.own_steps().size() > own_steps;
    own_steps = world.own_steps().size();
    if (!useful) account.spent_s += seconds() - last_s;
    last_s = seconds();
    if (account.reached_s < 0 && machine.true_ms(settings_of(world.state().incumbent)) <= good_ms)
      account.reached_s = account.spent_s;
  };
  world.begin();
  const bool ended = world.run([] { return false; }, 20000000);
  TRIMTAB_ASSERT(ended, "a job of the bench ends");
  int adopted = 0;
  for (const Trial& trial : world.state().trials) adopted += trial.state == TrialState::kAdopted ? 1 : 0;
  return {{"name", given["name"]},
          {"seed", given["seed"]},
          {"spent_s", account.spent_s},
          {"reached_s", account.reached_s},
          {"trials", world.state().trials.size()},
          {"adopted", adopted},
          {"end_ms", machine.true_ms(settings_of(world.state().incumbent))},
          {"history", given.value("history", false) ? world.history() : ""}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << run(json::parse(line)).dump() << std::endl;
  return 0;
}
