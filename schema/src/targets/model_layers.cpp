#include <algorithm>
#include <map>

#include "schema/target.hpp"

namespace trimtab {

namespace {

// Kinds of operators that belong to no layer, whatever number of a layer they bear.
bool is_end(const Operator& op) {
  return op.kind == "embedding" || op.kind == "head" || op.kind == "loss" || op.kind == "final_norm";
}

std::vector<Range> runs_of_layers(const Model& model, std::int32_t begin, std::int32_t end) {
  std::vector<Range> runs;
  for (std::int32_t i = begin; i < end; ++i) {
    if (i == begin || model.operators[i].layer != model.operators[i - 1].layer) runs.push_back({i, i});
    runs.back().end = i + 1;
  }
  return runs;
}

std::string kinds_of(const Model& model, const Range& range) {
  std::string kinds;
  for (std::int32_t i = range.begin; i < range.end; ++i) kinds += model.operators[i].kind + " ";
  return kinds;
}

}  // namespace

Result<ModelLayers> layers_of(const Model& model) {
  auto begin = std::int32_t{0};
  auto end = static_cast<std::int32_t>(model.operators.size());
  while (begin < end && is_end(model.operators[begin])) ++begin;
  while (end > begin && is_end(model.operators[end - 1])) --end;
  std::vector<Range> runs = runs_of_layers(model, begin, end);
  if (runs.empty()) return bad_input("model " + model.name + ": has no layers between its embedding and its head");
  std::map<std::string, std::int32_t> counts;
  for (const Range& run : runs) ++counts[kinds_of(model, run)];
  const auto usual = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                       return a.second < b.second;
                     })->first;
  const auto is_layer = [&](const Range& run) { return kinds_of(model, run) == usual; };
  const auto first = std::find_if(runs.begin(), runs.end(), is_layer);
  const auto last = std::find_if(runs.rbegin(), runs.rend(), is_layer).base();
  const auto odd = std::find_if_not(first, last, is_layer);
  if (odd != last) {
    return bad_input("model " + model.name + ": layers must be equal for this target, but operators " +
                     std::to_string(odd->begin) + " to " + std::to_string(odd->end - 1) + " are of kinds " +
                     kinds_of(model, *odd) + "and other layers of " + usual);
  }
  ModelLayers layers;
  layers.layers.assign(first, last);
  layers.before = {0, layers.layers.front().begin};
  layers.after = {layers.layers.back().end, static_cast<std::int32_t>(model.operators.size())};
  return layers;
}

}  // namespace trimtab
