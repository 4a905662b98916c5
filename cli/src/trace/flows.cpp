#include "trace/flows.hpp"

#include <utility>

namespace trimtab::cli {

std::vector<TraceArrow> TraceFlows::add_range(std::uint32_t id, TracePlace begin) {
  if (id == 0) return {};
  ranges_.put(id, begin, most_);
  std::vector<TracePlace>* kernels = waiting_for_range_.find(id);
  if (kernels == nullptr) return {};
  std::vector<TraceArrow> arrows;
  for (const TracePlace& kernel : std::exchange(*kernels, {})) arrows.push_back({begin, kernel});
  arrows_ += arrows.size();
  return arrows;
}

std::vector<TraceArrow> TraceFlows::add_launch(std::uint32_t correlation, std::uint32_t range) {
  launches_.put(correlation, range, most_);
  std::vector<TracePlace>* waiting = kernels_.find(correlation);
  if (waiting == nullptr) return {};
  std::vector<TraceArrow> arrows;
  for (const TracePlace& kernel : std::exchange(*waiting, {})) {
    --kernels_seen_;
    for (const TraceArrow& arrow : add_kernel(correlation, kernel)) arrows.push_back(arrow);
  }
  return arrows;
}

std::vector<TraceArrow> TraceFlows::add_kernel(std::uint32_t correlation, TracePlace begin) {
  ++kernels_seen_;
  const std::uint32_t* range = launches_.find(correlation);
  if (range != nullptr && *range == 0) return {};  // launched in no range
  auto& waiting = range == nullptr ? kernels_ : waiting_for_range_;
  const std::uint32_t key = range == nullptr ? correlation : *range;
  const TracePlace* known = range == nullptr ? nullptr : ranges_.find(*range);
  if (known != nullptr) {
    ++arrows_;
    return {{*known, begin}};
  }
  if (std::vector<TracePlace>* kernels = waiting.find(key)) {
    kernels->push_back(begin);
  } else {
    waiting.put(key, {begin}, most_);
  }
  return {};
}

}  // namespace trimtab::cli
