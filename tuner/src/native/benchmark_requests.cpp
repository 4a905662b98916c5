#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "native/costs/link_costs.hpp"
#include "plan/plan_space.hpp"
#include "tuner/needed_costs.hpp"

namespace trimtab::tuner {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kRelativeError = 0.03;
constexpr int kRepetitionsMin = 5;
constexpr int kRepetitionsMax = 60;

// The operator that overlap is measured beside.
struct Companion {
  std::string cost_key;
  std::string dtype;
  std::int32_t samples = 1;
};

bool is_operator(const CostKey& key) {
  return key.kind <= CostKind::kOperatorWorkingBytes;
}

void place(const CostKey& key, Json& item) {
  if (!key.placement.empty() && key.placement != "intra_node") item["placement"] = key.placement;
}

Json operator_item(const CostKey& key) {
  return {{"kind", "operator"}, {"cost_key", key.subject}, {"dtype", key.dtype}, {"samples", key.samples},
          {"tp", key.tp},       {"sharding", key.sharding}};
}

Json collective_item(const CostKey& key) {
  Json item = {
      {"kind", "collective"}, {"primitive", key.subject}, {"bytes", key.bytes}, {"group_size", key.group_size}};
  place(key, item);
  return item;
}

Json overlap_item(const CostKey& key, const Companion& beside) {
  Json item = {{"kind", "overlap"},           {"primitive", key.subject},
               {"bytes", key.bytes},          {"group_size", key.group_size},
               {"cost_key", beside.cost_key}, {"dtype", beside.dtype},
               {"samples", beside.samples}};
  place(key, item);
  return item;
}

// Null where no benchmark fills the key: such costs are seen in running jobs only.
Json item_of(const CostKey& key, const std::optional<Companion>& beside) {
  switch (key.kind) {
    case CostKind::kOperatorForward:
    case CostKind::kOperatorBackward:
    case CostKind::kOperatorStoredBytes:
    case CostKind::kOperatorWorkingBytes:
      return operator_item(key);
    case CostKind::kOptimizerStep: {
      Json item = {{"kind", "optimizer"}, {"cost_key", key.subject}, {"dtype", key.dtype}};
      if (!key.placement.empty()) item["placement"] = key.placement;
      return item;
    }
    case CostKind::kCollective:
      return collective_item(key);
    case CostKind::kPointToPoint: {
      if (is_host_copy(key.subject)) return {{"kind", "copy"}, {"direction", key.subject}, {"bytes", key.bytes}};
      Json item = {{"kind", "point_to_point"}, {"bytes", key.bytes}};
      place(key, item);
      return item;
    }
    case CostKind::kOverlapComputation:
    case CostKind::kOverlapCommunication:
      return beside ? overlap_item(key, *beside) : Json();
    case CostKind::kProcessBytes:
      return {{"kind", "process"}};
    case CostKind::kOperatorInputBytes:
    case CostKind::kOperatorOutputBytes:
    case CostKind::kOperatorParameterBytes:
    case CostKind::kOperatorForwardReserveBytes:
    case CostKind::kOperatorBackwardReserveBytes:
    case CostKind::kStepOverhead:
    case CostKind::kStepTime:
    case CostKind::kRange:
    case CostKind::kKernel:
      break;
  }
  return {};
}

std::string requests(const std::vector<CostKey>& keys, const std::optional<Companion>& beside) {
  Json items = Json::array();
  for (const CostKey& key : keys) {
    Json item = item_of(key, beside);
    if (!item.is_null() && std::find(items.begin(), items.end(), item) == items.end()) items.push_back(std::move(item));
  }
  return Json{{"schema", "trimtab.benchmark_requests/1"},
              {"relative_error", kRelativeError},
              {"max_repetitions", kRepetitionsMax},
              {"min_repetitions", kRepetitionsMin},
              {"items", std::move(items)}}
      .dump();
}

const CostKey* most_samples(const std::vector<CostKey>& keys, const std::string& cost_key) {
  const CostKey* most = nullptr;
  for (const CostKey& key : keys) {
    if (!is_operator(key) || (!cost_key.empty() && key.subject != cost_key)) continue;
    if (most == nullptr || key.samples > most->samples) most = &key;
  }
  return most;
}

}  // namespace

std::string benchmark_requests_json(const std::vector<CostKey>& keys, const Model& model) {
  const auto heaviest =
      std::max_element(model.operators.begin(), model.operators.end(), [](const Operator& a, const Operator& b) {
        return std::pair(a.forward_flops, a.parameter_bytes) < std::pair(b.forward_flops, b.parameter_bytes);
      });
  Companion beside{heaviest->cost_key, model.dtype, 1};
  const CostKey* const named = most_samples(keys, heaviest->cost_key);
  const std::vector<std::int32_t> possible = possible_samples(model, {1});
  if (named != nullptr) {
    beside.samples = named->samples;
  } else if (!possible.empty()) {
    beside.samples = possible[possible.size() / 2];
  }
  return requests(keys, beside);
}

std::string benchmark_requests_json(const std::vector<CostKey>& keys) {
  const CostKey* const named = most_samples(keys, "");
  if (named == nullptr) return requests(keys, std::nullopt);
  return requests(keys, Companion{named->subject, named->dtype, named->samples});
}

}  // namespace trimtab::tuner
