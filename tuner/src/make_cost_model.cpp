#include <utility>

#include "tuner/aceso_cost_model.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

Result<std::unique_ptr<CostModel>> make_cost_model(std::string_view name, const Model& model, const Cluster& cluster,
                                                   const std::vector<Cost>& costs, CostTableOptions options,
                                                   const Calibration& calibration) {
  if (name == "native") {
    TRIMTAB_TRY(CostTable table, CostTable::build(model, cluster, costs, options));
    return std::unique_ptr<CostModel>(std::make_unique<NativeCostModel>(std::move(table), calibration));
  }
  if (name == "aceso") {
    TRIMTAB_TRY(AcesoCostModel built, AcesoCostModel::build(model, cluster, costs));
    return std::unique_ptr<CostModel>(std::make_unique<AcesoCostModel>(std::move(built)));
  }
  std::string known;
  for (const std::string_view one : cost_models()) known += (known.empty() ? "" : ", ") + std::string(one);
  return bad_input("cost model: needs one of " + known + ", found '" + std::string(name) + "'");
}

std::vector<std::string_view> cost_models() {
  return {"native", "aceso"};
}

}  // namespace trimtab::tuner
