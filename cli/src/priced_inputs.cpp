#include "priced_inputs.hpp"

#include <CLI/CLI.hpp>
#include <utility>

namespace trimtab::cli {

void add_priced_flags(CLI::App* verb, PricedFlags& flags, bool costs_optional) {
  add_value(verb, "--model", flags.model, "FILE", "model.json")->required();
  add_value(verb, "--cluster", flags.cluster, "FILE", "cluster.json")->required();
  auto* costs = add_value(verb, "--costs", flags.costs, "FILE", "Cost database");
  costs->required(!costs_optional);
  add_value(verb, "--fingerprint", flags.fingerprint, "HASH",
            "Whose costs, where the database has several (a prefix will do)");
  add_value(verb, "--cost-model", flags.cost_model, "native", "Cost model")->capture_default_str();
  add_value(verb, "--calibration", flags.calibration, "JOB",
            "Correct predictions by what this job's trials have taught");
  verb->add_flag("--allow-estimates", flags.allow_estimates,
                 "Scale the nearest measured point where a cost is missing");
}

Result<PricedInputs> read_priced_inputs(const PricedFlags& flags) {
  if (flags.cost_model != "native") {
    return bad_input("--cost-model: this release knows 'native' alone, but found '" + flags.cost_model + "'");
  }
  TRIMTAB_TRY(Model model, read_model(flags.model));
  TRIMTAB_TRY(Cluster cluster, read_cluster(flags.cluster));
  TRIMTAB_TRY(Costs costs, read_costs(flags.costs, flags.fingerprint, &cluster, flags.calibration));
  auto table = tuner::CostTable::build(model, cluster, costs.costs, {flags.allow_estimates});
  if (!table.ok()) return wrap(flags.costs, table.error());
  return PricedInputs{std::move(model), std::move(cluster), std::move(costs.fingerprint), std::move(table).value(),
                      costs.calibration};
}

std::string rules_text(const std::string& path, const std::vector<std::string>& broken) {
  std::string text = path + " breaks " + std::to_string(broken.size()) + (broken.size() == 1 ? " rule:" : " rules:");
  for (const std::string& rule : broken) text += "\n  " + rule;
  return text;
}

}  // namespace trimtab::cli
