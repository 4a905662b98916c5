// The file that trimtab.pipelining reads, read back: the inverse of pipelining.cpp.

#include <algorithm>

#include "targets/pipelining/pipelining.hpp"
#include "targets/plan_readers.hpp"
#include "targets/plan_stages.hpp"

namespace trimtab {

namespace {

constexpr const char* kSchedule = "schedule";
constexpr const char* kMicrobatches = "n_microbatches";
constexpr const char* kBatch = "batch_size";
constexpr const char* kGroup = "group_size";
constexpr const char* kSplits = "split_layers";
constexpr const char* kTarget = "pipelining";

std::string found(std::int64_t value) {
  return ", found " + std::to_string(value);
}

class Reader : PlanReader {
 public:
  using PlanReader::PlanReader;

  Result<Plan> plan() {
    TRIMTAB_TRY(const std::string schema, members_.text("schema", ""));
    if (schema != kPipeliningSchema) {
      return members_.refusal("schema",
                              "expected " + std::string(kPipeliningSchema) + ", found " + quoted_text(schema));
    }
    plan_.model = model_.name;
    TRIMTAB_TRY(parts_, layers_of(model_));
    TRIMTAB_TRY_STATUS(read_ranks());
    TRIMTAB_TRY_STATUS(read_batch());
    TRIMTAB_TRY_STATUS(read_splits());
    TRIMTAB_TRY_STATUS(read_schedule());
    TRIMTAB_TRY_STATUS(read_stages());
    if (const std::vector<std::string> unread = members_.unread(); !unread.empty()) {
      return members_.refusal(unread.front(), "trimtab.pipelining knows no such member");
    }
    TRIMTAB_TRY_STATUS(check_import(plan_, model_, kTarget, "torch.distributed.pipelining"));
    return std::move(plan_);
  }

 private:
  Status read_ranks() {
    TRIMTAB_TRY(const std::int32_t world, ranks_of_own_file(members_, file_, parts_));
    TRIMTAB_TRY(counts_.groups, members_.needed_count(kGroup));
    counts_.group_size = world / counts_.groups;
    if (world % counts_.groups == 0) return {};
    return members_.refusal(kGroup, "must divide world_size " + std::to_string(world) + found(counts_.groups));
  }

  Status read_batch() {
    TRIMTAB_TRY(const std::int32_t samples, members_.needed_count(kBatch));
    TRIMTAB_TRY(const std::int32_t microbatches, members_.needed_count(kMicrobatches));
    TRIMTAB_TRY(plan_.global_batch, members_.needed_count("global_batch"));
    if (std::int64_t{samples} * counts_.group_size != plan_.global_batch) {
      return members_.refusal("global_batch", "must be batch_size x world_size / group_size, " +
                                                  std::to_string(samples) + " x " + std::to_string(counts_.group_size) +
                                                  found(plan_.global_batch));
    }
    plan_.microbatch = plan_.global_batch / microbatches;
    if (samples % microbatches == 0) return {};
    return members_.refusal(kMicrobatches, "must divide batch_size " + std::to_string(samples) + found(microbatches));
  }

  Status read_splits() {
    const auto layers = static_cast<std::int32_t>(parts_.layers.size());
    TRIMTAB_TRY(const std::vector<std::int32_t> splits, members_.layer_numbers(kSplits, layers));
    std::int32_t begin = 0;
    for (const std::int32_t split : splits) {
      if (split <= begin) return members_.refusal(kSplits, "must rise from 1 on" + found(split));
      counts_.layers.push_back(split - begin);
      begin = split;
    }
    counts_.layers.push_back(layers - begin);
    const auto stages = static_cast<std::int32_t>(counts_.layers.size());
    if (stages % counts_.groups == 0) return {};
    return members_.refusal(kSplits, "needs as many stages on each of the " + std::to_string(counts_.groups) +
                                         " ranks of a pipeline" + found(stages));
  }

  Status read_schedule() {
    TRIMTAB_TRY(const std::string said, members_.text(kSchedule, ""));
    std::string known;
    for (const ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::k1F1B, ScheduleKind::kInterleaved}) {
      if (said == torch_schedule(kind)) {
        plan_.schedule.kind = kind;
        return check_rounds(said);
      }
      known += (known.empty() ? "" : ", ") + std::string(torch_schedule(kind));
    }
    return members_.refusal(kSchedule, "a plan has " + known + " alone, found " + quoted_text(said));
  }

  Status check_rounds(const std::string& said) {
    const bool several = std::ssize(counts_.layers) > counts_.groups;
    if (!several || plan_.schedule.kind == ScheduleKind::kInterleaved) return {};
    return members_.refusal(kSchedule, said + " has one stage on each rank, found " +
                                           std::to_string(counts_.layers.size()) + " stages on " +
                                           std::to_string(counts_.groups) + " ranks");
  }

  Status read_stages() {
    const auto layers = static_cast<std::int32_t>(parts_.layers.size());
    TRIMTAB_TRY(const std::vector<std::int32_t> again, members_.layer_numbers(kCheckpointedLayers, layers));
    std::vector<bool> recomputed(model_.operators.size());
    for (const std::int32_t number : again) {
      const Range& layer = parts_.layers[static_cast<std::size_t>(number)];
      std::fill(recomputed.begin() + layer.begin, recomputed.begin() + layer.end, true);
    }
    Segment like;
    like.dp = counts_.group_size;
    TRIMTAB_TRY(plan_.stages, plan_stages(
                                  model_, parts_, counts_,
                                  [&](std::int32_t op) {
                                    return OperatorPlan{like, recomputed[static_cast<std::size_t>(op)]};
                                  },
                                  kSplits));
    return {};
  }

  ModelLayers parts_;
  StageCounts counts_;
  Plan plan_;
};

}  // namespace

Result<Plan> read_pipelining_plan(PlanMembers& members, const PlanFile& file, const Model& model) {
  return Reader(members, file, model).plan();
}

}  // namespace trimtab
