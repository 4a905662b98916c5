#include "papers/cost_models.hpp"

#include <utility>

#include "papers/aceso_cost_model.hpp"
#include "papers/autopipe_cost_model.hpp"
#include "papers/galvatron/formulas.hpp"
#include "papers/galvatron_cost_model.hpp"
#include "papers/h3t_cost_model.hpp"
#include "papers/oases_cost_model.hpp"
#include "solvers/h3t/segment_simulator.hpp"
#include "tuner/cost_choice.hpp"

namespace trimtab::tuner {
namespace {

using Built = Result<std::unique_ptr<CostModel>>;

struct Inputs {
  const Model& model;
  const Cluster& cluster;
  const std::vector<Cost>& costs;
  CostTableOptions options;
  const Calibration& calibration;
};

template <typename Kind>
Built owned(Result<Kind> built) {
  if (!built.ok()) return built.error();
  return std::unique_ptr<CostModel>(std::make_unique<Kind>(std::move(*built)));
}

Built build_native(const Inputs& in) {
  TRIMTAB_TRY(CostTable table, CostTable::build(in.model, in.cluster, in.costs, in.options));
  Calibration calibration = beside_corrections_of(table, in.calibration);
  return std::unique_ptr<CostModel>(std::make_unique<NativeCostModel>(std::move(table), std::move(calibration)));
}

Built build_aceso(const Inputs& in) {
  return owned(AcesoCostModel::build(in.model, in.cluster, one_cost_each(in.costs)));
}

template <Transfers kTransfers>
Built build_autopipe(const Inputs& in) {
  CostTableOptions options = in.options;
  options.passes_only = true;
  TRIMTAB_TRY(CostTable table, CostTable::build(in.model, in.cluster, in.costs, options));
  return std::unique_ptr<CostModel>(std::make_unique<AutopipeCostModel>(std::move(table), kTransfers));
}

template <galvatron::Variant kVariant>
Built build_galvatron(const Inputs& in) {
  return owned(GalvatronCostModel::build(kVariant, in.model, in.cluster, one_cost_each(in.costs)));
}

template <h3t::Fabric kFabric>
Built build_h3t(const Inputs& in) {
  return owned(H3tCostModel::build(in.model, in.cluster, in.costs, kFabric, in.options));
}

template <OasesVariant kVariant>
Built build_oases(const Inputs& in) {
  return owned(OasesCostModel::build(kVariant, in.model, in.cluster, one_cost_each(in.costs)));
}

struct NamedCostModel {
  std::string_view name;
  Built (*build)(const Inputs&);
};

// A paper's name alone stands for its documented default.
constexpr NamedCostModel kCostModels[] = {
    {"native", build_native},
    {"aceso", build_aceso},
    {"autopipe", build_autopipe<Transfers::kBlocking>},
    {"autopipe:blocking", build_autopipe<Transfers::kBlocking>},
    {"autopipe:eager", build_autopipe<Transfers::kEager>},
    {"galvatron", build_galvatron<galvatron::Variant::kPaper>},
    {"galvatron:paper", build_galvatron<galvatron::Variant::kPaper>},
    {"galvatron:v1", build_galvatron<galvatron::Variant::kV1>},
    {"galvatron:v2", build_galvatron<galvatron::Variant::kV2>},
    {"h3t", build_h3t<h3t::Fabric::kNvlink>},
    {"h3t:nvlink", build_h3t<h3t::Fabric::kNvlink>},
    {"h3t:pcie", build_h3t<h3t::Fabric::kPcie>},
    {"oases", build_oases<OasesVariant::kPaper>},
    {"oases:paper", build_oases<OasesVariant::kPaper>},
    {"oases:published", build_oases<OasesVariant::kPublished>},
};

}  // namespace

Result<std::unique_ptr<CostModel>> make_cost_model(std::string_view name, const Model& model, const Cluster& cluster,
                                                   const std::vector<Cost>& costs, CostTableOptions options,
                                                   const Calibration& calibration) {
  std::string known;
  for (const NamedCostModel& one : kCostModels) {
    if (one.name == name) return one.build({model, cluster, costs, options, calibration});
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  return bad_input("cost model: needs one of " + known + ", found '" + std::string(name) + "'");
}

std::vector<std::string_view> cost_models() {
  std::vector<std::string_view> names;
  for (const NamedCostModel& one : kCostModels) names.push_back(one.name);
  return names;
}

}  // namespace trimtab::tuner
