#include "plans/priced_inputs.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "arguments.hpp"
#include "costs/taken_over.hpp"
#include "papers/cost_models.hpp"
#include "plans/measured_plans.hpp"
#include "terminal_text.hpp"
#include "tuner/validate.hpp"

namespace trimtab::cli {

void add_priced_flags(CLI::App* verb, PricedFlags& flags, Priced priced) {
  const Need documents = priced == Priced::kOtherwise ? Need::kOptional : Need::kRequired;
  add_value(verb, "--model", flags.model, "FILE", "model.json", documents);
  add_value(verb, "--cluster", flags.cluster, "FILE", "cluster.json", documents);
  add_value(verb, "--costs", flags.costs, "FILE", "Cost database",
            priced == Priced::kAlways ? Need::kRequired : Need::kOptional);
  add_value(verb, "--fingerprint", flags.fingerprint, "HASH",
            "Whose costs, where the database has several (a prefix will do)");
  add_value(verb, "--cost-model", flags.cost_model, joined(tuner::cost_models(), "|"), "Cost model", Need::kHasDefault);
  add_value(verb, "--calibration", flags.calibration, "JOB",
            "Correct predictions by what this job's trials have taught (of a tenant's: TENANT/JOB)");
  add_flag(verb, "--allow-estimates", flags.allow_estimates,
           "Scale the nearest measured point where a cost is missing");
  verb->add_option("--device-share", flags.device_share,
                   "Of the variance of measured times, the share that each device always has, 0 to 1")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

Result<PricedInputs> read_priced_inputs(const PricedFlags& flags, std::ostream& remarks) {
  TRIMTAB_TRY_STATUS(check_choice("--cost-model", flags.cost_model, tuner::cost_models()));
  if (!flags.calibration.empty() && !flags.measured.empty()) {
    return bad_input("--calibration and --measured both say how far predictions are off: give one of them");
  }
  TRIMTAB_TRY(const Model model, read_model(flags.model));
  TRIMTAB_TRY(const Cluster cluster, read_cluster(flags.cluster));
  TRIMTAB_TRY(const ReadCosts database, open_costs(flags.costs, remarks));
  TRIMTAB_TRY(Costs costs, read_costs(*database, flags.fingerprint, &cluster, flags.calibration));
  if (flags.cost_model == "native") {  // the others know no doubt about a cost
    TRIMTAB_TRY(std::vector<Cost> taken, read_taken_over(*database, costs.fingerprint));
    std::ranges::move(taken, std::back_inserter(costs.costs));
  }
  const tuner::CostTableOptions options{.allow_estimates = flags.allow_estimates, .device_share = flags.device_share};
  auto cost_model = tuner::make_cost_model(flags.cost_model, model, cluster, costs.costs, options, costs.calibration);
  if (!cost_model.ok()) return wrap(flags.costs, cost_model.error());
  PricedInputs inputs{std::move(costs.fingerprint), std::move(cost_model).value()};
  if (!flags.measured.empty()) {
    TRIMTAB_TRY(inputs.cost_model, corrected_by(flags.measured, *inputs.cost_model));
  }
  return inputs;
}

Status check_plan(const std::string& path, const Plan& plan, const tuner::CostModel& cost_model) {
  const auto broken = tuner::validate(plan, cost_model.model(), cost_model.cluster());
  if (!broken.empty()) return bad_input(rules_text(path, broken));
  const auto unpriced = cost_model.unpriced(plan);
  if (unpriced.empty()) return {};
  return bad_input(path + " sets what the cost model '" + std::string(cost_model.name()) + "' does not price:\n  " +
                   joined(unpriced, "\n  "));
}

std::string rules_text(const std::string& path, const std::vector<std::string>& broken) {
  return path + " breaks " + std::to_string(broken.size()) + (broken.size() == 1 ? " rule:" : " rules:") + "\n  " +
         joined(broken, "\n  ");
}

}  // namespace trimtab::cli
