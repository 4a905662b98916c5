#include "plans/priced_inputs.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "nearest.hpp"
#include "tuner/validate.hpp"

namespace trimtab::cli {

void add_priced_flags(CLI::App* verb, PricedFlags& flags, bool costs_optional) {
  add_value(verb, "--model", flags.model, "FILE", "model.json")->required();
  add_value(verb, "--cluster", flags.cluster, "FILE", "cluster.json")->required();
  auto* costs = add_value(verb, "--costs", flags.costs, "FILE", "Cost database");
  costs->required(!costs_optional);
  add_value(verb, "--fingerprint", flags.fingerprint, "HASH",
            "Whose costs, where the database has several (a prefix will do)");
  add_value(verb, "--cost-model", flags.cost_model, joined(tuner::cost_models()), "Cost model")->capture_default_str();
  add_value(verb, "--calibration", flags.calibration, "JOB",
            "Correct predictions by what this job's trials have taught (of a tenant's: TENANT/JOB)");
  verb->add_flag("--allow-estimates", flags.allow_estimates,
                 "Scale the nearest measured point where a cost is missing");
  verb->add_option("--device-share", flags.device_share,
                   "Of the variance of measured times, the share that each device always has, 0 to 1")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

Result<PricedInputs> read_priced_inputs(const PricedFlags& flags) {
  TRIMTAB_TRY_STATUS(check_choice("--cost-model", flags.cost_model, tuner::cost_models()));
  TRIMTAB_TRY(const Model model, read_model(flags.model));
  TRIMTAB_TRY(const Cluster cluster, read_cluster(flags.cluster));
  TRIMTAB_TRY(Costs costs, read_costs(flags.costs, flags.fingerprint, &cluster, flags.calibration));
  const tuner::CostTableOptions options{.allow_estimates = flags.allow_estimates, .device_share = flags.device_share};
  auto cost_model = tuner::make_cost_model(flags.cost_model, model, cluster, costs.costs, options, costs.calibration);
  if (!cost_model.ok()) return wrap(flags.costs, cost_model.error());
  return PricedInputs{std::move(costs.fingerprint), std::move(cost_model).value()};
}

Status check_plan(const std::string& path, const Plan& plan, const tuner::CostModel& cost_model) {
  const auto broken = tuner::validate(plan, cost_model.model(), cost_model.cluster());
  if (!broken.empty()) return bad_input(rules_text(path, broken));
  const auto unpriced = cost_model.unpriced(plan);
  if (unpriced.empty()) return {};
  std::string text = path + " sets what the cost model '" + std::string(cost_model.name()) + "' does not price:";
  for (const std::string& knob : unpriced) text += "\n  " + knob;
  return bad_input(text);
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : "|") + std::string(name);
  return text;
}

Status check_choice(const std::string& flag, const std::string& value, const std::vector<std::string_view>& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return {};
  std::string list;
  for (const std::string_view name : known) list += (list.empty() ? "'" : ", '") + std::string(name) + "'";
  const std::vector<std::string> words(known.begin(), known.end());
  return bad_input(flag + ": expected one of " + list + ", but found '" + value + "'" + did_you_mean(value, words));
}

std::string rules_text(const std::string& path, const std::vector<std::string>& broken) {
  std::string text = path + " breaks " + std::to_string(broken.size()) + (broken.size() == 1 ? " rule:" : " rules:");
  for (const std::string& rule : broken) text += "\n  " + rule;
  return text;
}

}  // namespace trimtab::cli
