#pragma once

// What PyTorch's torch.distributed.pipelining (2.6 to 2.13) runs of a pipeline, under torchtitan and by itself. Pure.

#include <string_view>

#include "targets/plan_layers.hpp"

namespace trimtab {

// The file that client/python/trimtab/pipelining.py reads.
inline constexpr std::string_view kPipeliningSchema = "trimtab.pipelining/1";

// As many stages on every rank, a layer in each of them, and as many microbatches as Schedule1F1B wants.
void need_torch_pipeline(const PlanLayers& view, Complaints& complaints);
// As its get_schedule_class() calls it.
[[nodiscard]] std::string_view torch_schedule(ScheduleKind kind);

}  // namespace trimtab
