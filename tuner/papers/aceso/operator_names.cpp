#include "papers/aceso/operator_names.hpp"

namespace trimtab::tuner::aceso {
namespace {

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

double activation_factor(std::string_view name) {
  if (name == "enc-attention-dropout") return 1.5;
  if (name == "enc-attention-softmax" || name == "bn1" || contains(name, "-bn3")) return 0;
  if (contains(name, "-downsample") && !contains(name, "0-0")) return 0;
  return 1;
}

}  // namespace

NameFacts name_facts(std::string_view name) {
  NameFacts facts;
  facts.activation_factor = activation_factor(name);
  facts.starts_layer = name == "enc-1st-layernorm" || contains(name, "-conv1");
  facts.never_recomputed = facts.starts_layer || contains(name, "-relu") || contains(name, "embedding") ||
                           contains(name, "post-process") || name == "conv1";
  return facts;
}

}  // namespace trimtab::tuner::aceso
