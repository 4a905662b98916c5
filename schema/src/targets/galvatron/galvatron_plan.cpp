// Galvatron's strategy file, read back (galvatron/utils/config_utils.py and
// galvatron/core/runtime/hybrid_parallel_config.py, 1.0 to 2.4).

#include <algorithm>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "schema/launch_script.hpp"
#include "targets/plan_layers.hpp"
#include "targets/plan_readers.hpp"
#include "targets/plan_stages.hpp"

namespace trimtab {

namespace {

using Numbers = std::vector<std::int32_t>;

// Of a layer, or of the ends.
struct Split {
  std::int32_t tp = 1;
  std::int32_t cp = 1;
  bool consecutive = true;
  bool parameters = false;
  bool recompute = false;
};

class Reader : PlanReader {
 public:
  using PlanReader::PlanReader;

  Result<Plan> plan() {
    TRIMTAB_TRY(parts_, layers_of(model_));
    TRIMTAB_TRY(const Numbers stages, layers_by_stage());
    TRIMTAB_TRY_STATUS(find_size(std::ssize(stages)));
    TRIMTAB_TRY(usual_, usual_level());
    TRIMTAB_TRY_STATUS(read_layers());
    TRIMTAB_TRY_STATUS(read_ends());
    Plan plan;
    plan.model = model_.name;
    TRIMTAB_TRY_STATUS(read_batch(plan));
    TRIMTAB_TRY(plan.stages, plan_stages(
                                 model_, parts_, {stages, static_cast<std::int32_t>(stages.size()), size_},
                                 [&](std::int32_t op) { return of_operator(op); }, "pp_division"));
    TRIMTAB_TRY_STATUS(check_import(plan, model_, "galvatron", "Galvatron"));
    return plan;
  }

 private:
  [[nodiscard]] std::int32_t layers() const { return static_cast<std::int32_t>(parts_.layers.size()); }

  Result<std::int32_t> needed(const char* path) {
    TRIMTAB_TRY(const std::optional<std::int32_t> value, members_.count(path));
    if (value) return *value;
    return members_.refusal(path, "expected a positive number, found nothing");
  }

  // "1,2,2" of 0 to `most`. Nothing where it is missing.
  Result<std::optional<Numbers>> list(const char* path, std::int32_t most) {
    TRIMTAB_TRY(const std::string text, members_.text(path, ""));
    if (members_.find(path) == nullptr) return std::optional<Numbers>{};
    Numbers numbers;
    for (std::string_view word : parted(text)) {
      while (word.starts_with(' ')) word.remove_prefix(1);
      while (word.ends_with(' ')) word.remove_suffix(1);
      const auto number = parse_number<std::int32_t>(word);
      if (!number || *number < 0 || *number > most) {
        return members_.refusal(
            path, "expected numbers of 0 to " + std::to_string(most) + " between commas, found " + quoted_text(word));
      }
      numbers.push_back(*number);
    }
    return std::optional(std::move(numbers));
  }

  // One for each layer.
  Result<Numbers> by_layer(const char* path, std::optional<std::int32_t> fallback, std::int32_t most) {
    TRIMTAB_TRY(const std::optional<Numbers> numbers, list(path, most));
    if (numbers && std::ssize(*numbers) == layers()) return *numbers;
    if (!numbers && fallback) return Numbers(parts_.layers.size(), *fallback);
    return members_.refusal(path, "expected " + std::to_string(layers()) + " numbers, one for each layer of model " +
                                      model_.name + ", found " + std::to_string(numbers ? numbers->size() : 0));
  }

  Result<Numbers> layers_by_stage() {
    TRIMTAB_TRY(const std::int32_t pp, needed("pp_deg"));
    if (pp > layers()) {
      return members_.refusal("pp_deg", "is more than the " + std::to_string(layers()) + " layers of model " +
                                            model_.name + ", found " + std::to_string(pp));
    }
    TRIMTAB_TRY(const std::optional<Numbers> said, list("pp_division", layers()));
    if (!said) {
      Numbers even(static_cast<std::size_t>(pp), layers() / pp);
      even.back() += layers() % pp;
      return even;
    }
    std::int64_t sum = 0;
    for (const std::int32_t count : *said) sum += count;
    if (std::ssize(*said) == pp && sum == layers()) return *said;
    return members_.refusal("pp_division", "expected the layers of " + std::to_string(pp) + " stages, " +
                                               std::to_string(layers()) + " together, found " +
                                               std::to_string(said->size()) + " of " + std::to_string(sum));
  }

  Status find_size(std::ptrdiff_t stages) {
    TRIMTAB_TRY(std::optional<std::int32_t> ranks, members_.count("world_size"));
    if (ranks && file_.ranks && *ranks != *file_.ranks) {
      return members_.refusal("world_size", "is " + std::to_string(*ranks) + ", but the job has " +
                                                std::to_string(*file_.ranks) + " ranks");
    }
    if (!ranks) ranks = file_.ranks;
    if (!ranks) return ranks_needed("the file does not say on how many ranks its strategy runs");
    size_ = static_cast<std::int32_t>(*ranks / stages);
    if (*ranks % stages == 0) return {};
    return members_.refusal("pp_deg",
                            "must divide the " + std::to_string(*ranks) + " ranks, found " + std::to_string(stages));
  }

  // Of the file, else of Galvatron's option. Its defaults differ from release to release.
  Result<std::string> chosen(const char* path, const std::string& expected) {
    TRIMTAB_TRY(const std::string said, members_.text(path, option_value(file_.options, path).value_or("")));
    if (!said.empty()) return said;
    return members_.refusal(path, "is needed, since Galvatron's releases differ in what they take instead; add `-- --" +
                                      std::string(path) + " " + expected + "`");
  }

  Result<ShardedLevel> usual_level() {
    TRIMTAB_TRY(const std::string said, chosen("default_dp_type", "ddp|zero2|zero3"));
    if (said == "ddp") return ShardedLevel::kNone;
    if (said == "zero2") return ShardedLevel::kGradients;
    if (said == "zero3") return ShardedLevel::kParameters;
    return members_.refusal("default_dp_type", "expected ddp, zero2 or zero3, found " + quoted_text(said));
  }

  Status read_layers() {
    TRIMTAB_TRY(const Numbers tp, by_layer("tp_sizes_enc", {}, size_));
    TRIMTAB_TRY(const Numbers cp, by_layer("cp_sizes_enc", 1, size_));
    TRIMTAB_TRY(const Numbers consecutive, by_layer("tp_consecutive_flags", {}, 1));
    TRIMTAB_TRY(const Numbers types, by_layer("dp_types_enc", {}, 1));
    TRIMTAB_TRY(const Numbers ulysses, by_layer("use_sp", 0, 1));
    TRIMTAB_TRY(const Numbers recomputed, by_layer("checkpoint", 0, 1));
    TRIMTAB_TRY_STATUS(need_ones("ep_sizes_enc"));
    TRIMTAB_TRY_STATUS(need_ones("tp_of_ep_sizes_enc"));
    for (std::size_t i = 0; i < tp.size(); ++i) {
      TRIMTAB_TRY_STATUS(need_division("tp_sizes_enc", tp[i], cp[i]));
      if (ulysses[i] == 1 && tp[i] > 1) {
        return members_.refusal("use_sp", "a plan has no sequence parallelism of Ulysses, which layer " +
                                              std::to_string(i) + " has over " + std::to_string(tp[i]) + " ranks");
      }
      layers_.push_back({tp[i], cp[i], consecutive[i] == 1, types[i] == 1, recomputed[i] == 1});
    }
    return {};
  }

  Status need_ones(const char* path) {
    TRIMTAB_TRY(const Numbers numbers, by_layer(path, 1, size_));
    if (std::ranges::count(numbers, 1) == std::ssize(numbers)) return {};
    return members_.refusal(path, "a plan has no experts");
  }

  Status need_division(const char* path, std::int32_t tp, std::int32_t cp) {
    if (tp > 0 && cp > 0 && size_ % (std::int64_t{tp} * cp) == 0) return {};
    return members_.refusal(path, "tp and cp must divide the " + std::to_string(size_) + " ranks of a stage, found " +
                                      std::to_string(tp) + " and " + std::to_string(cp));
  }

  // Embedding and head.
  Status read_ends() {
    TRIMTAB_TRY(const std::optional<std::int32_t> tp, members_.count("vtp"));
    TRIMTAB_TRY(const std::optional<std::int32_t> cp, members_.count("vcp"));
    TRIMTAB_TRY(const std::optional<std::int64_t> ulysses, members_.integer("vsp"));
    TRIMTAB_TRY(const std::optional<std::int64_t> now, members_.integer("vocab_sdp"));
    TRIMTAB_TRY(const std::optional<std::int64_t> before, members_.integer("embed_sdp"));
    ends_ = {tp.value_or(1), cp.value_or(1), true, now.value_or(before.value_or(0)) == 1};
    TRIMTAB_TRY_STATUS(need_division("vtp", ends_.tp, ends_.cp));
    if (now && before && *now != *before) {
      return members_.refusal("vocab_sdp", "is what embed_sdp was before 2.4, and they differ");
    }
    if (ulysses.value_or(0) == 0 || ends_.tp == 1) return {};
    return members_.refusal("vsp",
                            "a plan has no sequence parallelism of Ulysses, which embedding and head have over " +
                                std::to_string(ends_.tp) + " ranks (vtp)");
  }

  Status read_batch(Plan& plan) {
    TRIMTAB_TRY(plan.global_batch, needed("global_bsz"));
    TRIMTAB_TRY(const std::int32_t chunks, needed("chunks"));
    if (plan.global_batch % chunks != 0) {
      return members_.refusal("chunks", "must divide global_bsz, " + std::to_string(plan.global_batch) + ", found " +
                                            std::to_string(chunks));
    }
    plan.microbatch = plan.global_batch / chunks;
    TRIMTAB_TRY(const std::string kind, chosen("pipeline_type", "pipedream_flush|gpipe"));
    if (kind == "gpipe") plan.schedule.kind = ScheduleKind::kGPipe;
    if (kind == "gpipe" || kind == "pipedream_flush") return {};
    return members_.refusal("pipeline_type", "expected gpipe or pipedream_flush, found " + quoted_text(kind));
  }

  OperatorPlan of_operator(std::int32_t op) const {
    const bool inside = op >= parts_.before.end && op < parts_.layers.back().end;
    // Layers are equal, and one follows the other.
    const auto layer = static_cast<std::size_t>((op - parts_.before.end) / parts_.layers.front().size());
    const Split& split = inside ? layers_[layer] : ends_;
    OperatorPlan plan;
    plan.like.tp = split.tp;
    plan.like.cp = split.cp;
    plan.like.dp = size_ / split.tp / split.cp;
    plan.like.tp_consecutive = split.consecutive;
    if (plan.like.dp > 1) plan.like.sharded = split.parameters ? ShardedLevel::kParameters : usual_;
    plan.recompute = split.recompute;
    return plan;
  }

  ModelLayers parts_;
  std::int32_t size_ = 1;  // ranks of a stage
  ShardedLevel usual_ = ShardedLevel::kNone;
  std::vector<Split> layers_;
  Split ends_;
};

}  // namespace

Result<Plan> read_galvatron_plan(PlanMembers& members, const PlanFile& file, const Model& model) {
  return Reader(members, file, model).plan();
}

}  // namespace trimtab
