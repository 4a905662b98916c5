#include "papers/aceso/layouts.hpp"

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

OperatorLayouts same(LayoutRule input, LayoutRule output) {
  return {{input, input}, {output, output}};
}

bool is_resnet(std::string_view name) {
  return name.starts_with("block-") || name == "conv1" || name == "bn1" || name == "relu1" || name == "maxpool" ||
         name == "avgpool" || name == "fc";
}

// The first dimension that grows on the way; 3 where none does.
std::size_t growing(const Layout& from, const Layout& to) {
  for (std::size_t d = 0; d < 3; ++d) {
    if (to.split[d] > from.split[d]) return d;
  }
  return 3;
}

}  // namespace

OperatorLayouts layouts_of(std::string_view name) {
  using enum LayoutRule;
  if (is_resnet(name)) return same(kBatch, kBatch);
  if (contains(name, "embedding")) return same(kAny, kReplicated);
  if (name == "final-layernorm") return same(kReplicated, kBatch);
  if (contains(name, "post-process")) return same(kBatch, kAny);
  if (contains(name, "-layernorm") || contains(name, "-post-")) return same(kReplicated, kReplicated);
  if (contains(name, "attention-qkv") || contains(name, "MLP-GEMM-1")) {
    return {{kReplicated, kColumn}, {kColumn, kReplicated}};
  }
  if (contains(name, "attention-dense") || contains(name, "MLP-GEMM-2")) {
    return {{kColumn, kReplicated}, {kReplicated, kColumn}};
  }
  if (contains(name, "attention-score")) return same(kColumn, kHeads);
  if (contains(name, "attention-softmax") || contains(name, "attention-dropout")) return same(kHeads, kHeads);
  if (contains(name, "attention-context")) return same(kHeads, kColumn);
  if (contains(name, "MLP-gelu")) return same(kColumn, kColumn);
  return same(kAny, kAny);
}

Layout layout(LayoutRule rule, std::int32_t tp, std::int32_t dp) {
  if (rule == LayoutRule::kReplicated) return {tp, {1, dp, 1}};
  if (rule == LayoutRule::kColumn) return {1, {1, dp, tp}};
  if (rule == LayoutRule::kHeads) return {1, {dp, tp, 1}};
  if (rule == LayoutRule::kBatch) return {tp, {dp, 1, 1}};
  return {};
}

bool step_towards(const Layout& to, Layout& from, Reshard& step) {
  step = {};
  const std::size_t grows = growing(from, to);
  if (to.replicas < from.replicas && grows < 3) {
    step.group = from.replicas / to.replicas;
    step.backward = Primitive::kAllGather;
    from.replicas = to.replicas;
    from.split[grows] *= step.group;
    return true;
  }
  for (std::size_t d = 0; d < 3; ++d) {
    if (to.split[d] >= from.split[d]) continue;
    step.group = from.split[d] / to.split[d];
    from.split[d] = to.split[d];
    if (to.replicas > from.replicas) {
      step.forward = Primitive::kAllGather;
      from.replicas *= step.group;
      return true;
    }
    if (grows == 3) return false;
    step.forward = step.backward = Primitive::kAllToAll;
    from.split[grows] *= step.group;
    return true;
  }
  return false;
}

NameFacts name_facts(std::string_view name) {
  NameFacts facts;
  facts.activation_factor = activation_factor(name);
  facts.starts_layer = name == "enc-1st-layernorm" || contains(name, "-conv1");
  facts.never_recomputed = facts.starts_layer || contains(name, "-relu") || contains(name, "embedding") ||
                           contains(name, "post-process") || name == "conv1";
  return facts;
}

}  // namespace trimtab::tuner::aceso
