#include <algorithm>
#include <array>
#include <initializer_list>
#include <tuple>

#include "published/aceso/costs.hpp"

namespace trimtab::published {

namespace {

// What an operator's published name says: its kind, its dimensions, its multiplications.
struct OperatorShape {
  std::string kind;                           // "linear", "attention", "layernorm", ...
  std::map<std::string, std::int64_t> sizes;  // empty for ResNet, whose shapes are not published
  std::int64_t forward_flops = 0;             // of the matrix products, per sample; 0 where it cannot be derived
  bool splits_two_ways = false;               // tensor parallelism may take its second dimension
};

struct KindOfName {
  std::string_view part;  // of the published name
  std::string_view kind;
  bool splits_two_ways;
};

// The first that occurs in the name decides.
constexpr std::array<KindOfName, 18> kKinds{{{"embedding", "embedding", false},
                                             {"layernorm", "layernorm", false},
                                             {"post-process", "head", false},
                                             {"attention-score", "attention", false},
                                             {"attention-context", "attention", false},
                                             {"softmax", "softmax", false},
                                             {"dropout", "dropout", false},
                                             {"attention-qkv", "linear", true},
                                             {"attention-dense", "linear", true},
                                             {"MLP-GEMM", "linear", true},
                                             {"gelu", "gelu", false},
                                             {"downsample", "convolution", true},
                                             {"conv", "convolution", true},
                                             {"bn", "batchnorm", false},
                                             {"relu", "relu", false},
                                             {"maxpool", "pooling", false},
                                             {"avgpool", "pooling", false},
                                             {"fc", "linear", false}}};

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// Of a transformer: the rows that an operator works on, and those that its attention looks at.
struct Rows {
  std::int64_t own;
  std::int64_t attended;
};

// A decoder's second attention ("-2") looks at the encoder's output.
Rows rows_of(std::string_view op, const Setting& setting) {
  const bool decoder = op.starts_with("dec") || op.starts_with("t5-post");
  if (!decoder) return {setting.sequence, setting.sequence};
  const bool crosses = op.ends_with("-2");
  return {setting.decoder_sequence, crosses ? setting.sequence : setting.decoder_sequence};
}

// A multiplication and an addition for each element of the product; 0 where no integer can hold it.
std::int64_t flops(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 2;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return 0;
  }
  return product;
}

std::int64_t flops_of(std::string_view op, const Setting& setting) {
  const auto [own, attended] = rows_of(op, setting);
  const auto& [hidden, heads, channels] = std::tie(setting.hidden, setting.heads, setting.head_channels);
  if (has(op, "attention-qkv")) return flops({hidden, heads, channels, own + 2 * attended});
  if (has(op, "attention-score") || has(op, "attention-context")) return flops({own, attended, heads, channels});
  if (has(op, "attention-dense")) return flops({own, heads, channels, hidden});
  if (has(op, "MLP-GEMM")) return flops({own, hidden, setting.ffn_hidden});
  if (has(op, "post-process")) return flops({own, hidden, setting.vocabulary});
  return 0;
}

std::map<std::string, std::int64_t> sizes_of(std::string_view op, const Setting& setting) {
  const auto [own, attended] = rows_of(op, setting);
  std::map<std::string, std::int64_t> sizes{{"sequence", own}, {"hidden", setting.hidden}};
  if (has(op, "attention")) sizes.insert({{"heads", setting.heads}, {"head_channels", setting.head_channels}});
  if (attended != own) sizes["attended"] = attended;
  if (has(op, "MLP")) sizes["ffn_hidden"] = setting.ffn_hidden;
  if (has(op, "embedding") || has(op, "post-process")) sizes["vocabulary"] = setting.vocabulary;
  return sizes;
}

// Whether the operator's backward pass reads what its forward pass was given or put out, as Aceso's runtime builds it
// (runtime/megatron/model/flex_ops.py): a softmax and a ReLU read their output, dropout its mask alone, and a sum,
// which ends ResNet's blocks under the name "downsample", nothing.
bool reads_input(std::string_view op) {
  return !has(op, "softmax") && !has(op, "dropout") && !has(op, "relu") && !has(op, "downsample");
}

bool reads_output(std::string_view op) {
  return has(op, "softmax") || has(op, "relu");
}

OperatorShape shape_of(std::string_view op, const Setting& setting) {
  OperatorShape shape;
  for (const KindOfName& entry : kKinds) {
    if (!has(op, entry.part)) continue;
    shape.kind = entry.kind;
    shape.splits_two_ways = entry.splits_two_ways;
    break;
  }
  if (setting.hidden == 0) return shape;
  shape.sizes = sizes_of(op, setting);
  shape.forward_flops = flops_of(op, setting);
  return shape;
}

// Numbers the layers of a model: each repeat of a block is one; ResNet's blocks are told apart by name
// ("block-2-0-conv1").
class Layers {
 public:
  std::int32_t of_repeat() { return next_++; }
  // Of an operator that stands in no repeated block. What comes before the first of ResNet's is a layer of its own.
  std::int32_t of_single(const std::string& name) {
    if (!name.starts_with("block-")) {
      if (next_ == 0 && name == "conv1") ++next_;
      return std::max(next_ - 1, 0);
    }
    const std::string block = name.substr(0, name.find('-', name.find('-', 6) + 1));
    if (block != block_) ++next_;
    block_ = block;
    return next_ - 1;
  }

 private:
  std::int32_t next_ = 0;
  std::string block_;
};

// The row that says most about one sample, unsharded: the first database's, tp 1, the fewest samples.
const OperatorRow* unsharded(const ProfiledOperator& op) {
  const OperatorRow* best = nullptr;
  const auto order = [](const OperatorRow& row) { return std::make_pair(row.profile.database, row.samples); };
  for (const OperatorRow* row : op.rows) {
    if (row->tp != 1 || row->alternate) continue;
    if (best == nullptr || order(*row) < order(*best)) best = row;
  }
  return best;
}

Operator operator_of(const std::string& name, const ProfiledOperator& op, const OperatorRow& row,
                     const Setting& setting) {
  const OperatorShape shape = shape_of(name, setting);
  Operator result;
  result.name = name;
  result.kind = shape.kind;
  result.cost_key = op.cost_key;
  result.shape = shape.sizes;
  result.parameter_bytes = row.measured.parameters;
  result.activation_bytes = row.measured.stored / row.samples;
  result.output_bytes = row.measured.output / row.samples;
  result.forward_flops = shape.forward_flops;
  const bool alternate = std::any_of(op.rows.begin(), op.rows.end(), [](const OperatorRow* r) { return r->alternate; });
  // A second choice that splits the same way is the same measurement again: its difference is noise.
  if (alternate && shape.splits_two_ways) result.shardings.emplace_back("alternate");
  return result;
}

// GPT and T5 share the word embedding with the output head; the head's matrix is the shared part. The runtime's head
// has a matrix of its own wherever it is (GPTPostProcess, T5PostProcess in flex_ops.py).
std::vector<TiedParameters> tied_parameters(const std::vector<Operator>& operators) {
  TiedParameters tied;
  tied.copied = true;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const bool head = operators[i].kind == "head";
    if (head || operators[i].kind == "embedding") tied.operators.push_back(static_cast<std::int32_t>(i));
    if (head) tied.bytes = operators[i].parameter_bytes;
  }
  if (tied.bytes == 0 || tied.operators.size() < 2) return {};
  return {tied};
}

class ModelMaker {
 public:
  ModelMaker(const OperatorList& list, const Setting& setting, const ProfiledOperators& profiles)
      : list_(list), setting_(setting), profiles_(profiles) {}

  Result<Model> make() {
    Model model;
    model.name = list_.model + "-" + list_.size;
    model.global_batch = setting_.global_batch;
    model.dtype = setting_.dtype;
    model.microbatch_total = setting_.microbatches;
    model.microbatch_per_replica = setting_.microbatches;
    model.gradient_bytes_per_parameter_byte = 1;
    model.optimizer_bytes_per_parameter_byte = setting_.main_parameter_multiple + setting_.optimizer_multiple;
    model.aceso = aceso_facts();
    TRIMTAB_TRY(model.operators, operators());
    model.tied_parameters = tied_parameters(model.operators);
    return model;
  }

 private:
  // What the published scripts set for each family.
  [[nodiscard]] AcesoFacts aceso_facts() const {
    AcesoFacts facts;
    facts.main_parameter_bytes_per_parameter_byte = setting_.main_parameter_multiple;
    facts.recompute_headroom_bytes = list_.model == "scale-layer" ? Bytes{1000} << 20 : 0;
    facts.resharding = list_.model != "t5";
    facts.mixed_splits = list_.model == "resnet";
    return facts;
  }

  Result<std::vector<Operator>> operators() {
    std::vector<Operator> all;
    Layers layers;
    for (const OperatorBlock& block : list_.blocks) {
      for (std::int32_t repeat = 0; repeat < block.repeat; ++repeat) {
        const std::int32_t layer = block.repeat > 1 ? layers.of_repeat() : 0;
        for (const std::string& name : block.operators) {
          TRIMTAB_TRY(const Operator* made, known(name));
          all.push_back(*made);
          all.back().layer = block.repeat > 1 ? layer : layers.of_single(name);
        }
      }
    }
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      all[i].output_saved = reads_output(all[i].name) || reads_input(all[i + 1].name);
    }
    return all;
  }

  // Made once for all layers.
  Result<const Operator*> known(const std::string& name) {
    const auto made = made_.find(name);
    if (made != made_.end()) return &made->second;
    const auto profile = profiles_.find({list_.profile_model, list_.profile_size});
    const ProfiledOperator* op = nullptr;
    if (profile != profiles_.end() && profile->second.contains(name)) op = &profile->second.at(name);
    const OperatorRow* row = op == nullptr ? nullptr : unsharded(*op);
    if (row == nullptr) {
      return bad_input("op_lists.json: " + list_.model + "/" + list_.size + " has the operator " + name +
                       ", but operators.csv has no row of it at tp 1, algo 0 for model " + list_.profile_model +
                       ", size " + list_.profile_size);
    }
    return &made_.emplace(name, operator_of(name, *op, *row, setting_)).first->second;
  }

  const OperatorList& list_;
  const Setting& setting_;
  const ProfiledOperators& profiles_;
  std::map<std::string, Operator> made_;
};

// The setting of this size; else, with a remark, one of its family with what all sizes have in common: shapes are not.
std::optional<Setting> setting_of(const OperatorList& list, const std::vector<Setting>& settings, Published& out) {
  for (const Setting& setting : settings) {
    if (setting.model == list.model && setting.size == list.size) return setting;
  }
  const std::string name = list.model + "-" + list.size;
  for (const Setting& setting : settings) {
    if (setting.model != list.model) continue;
    Setting common = setting;
    common.hidden = 0;
    out.remarks.push_back(name + ": models.csv has no setting of it: the model's batch sizes are those of " +
                          setting.model + "-" + setting.size + ", and it has no cluster");
    return common;
  }
  out.remarks.push_back(name + ": models.csv has no setting of this model: no documents");
  return std::nullopt;
}

Status check_setting(const Setting& setting, const Model& model) {
  const bool same_size = static_cast<std::size_t>(setting.operators) == model.operators.size();
  if (same_size && setting.global_batch == model.global_batch && setting.microbatches == model.microbatch_total) {
    return {};
  }
  return bad_input("models.csv: " + model.name + ": expected num_ops " + std::to_string(model.operators.size()) +
                   " as op_lists.json has, and the batch sizes of its first row (" +
                   std::to_string(model.global_batch) + "); found num_ops " + std::to_string(setting.operators) +
                   " and global batch " + std::to_string(setting.global_batch));
}

}  // namespace

Status add_aceso_models(const AcesoTables& tables, const ProfiledOperators& operators, Published& out) {
  std::map<ModelSize, const Model*> made;
  out.models.reserve(tables.lists.size());
  for (const OperatorList& list : tables.lists) {
    const auto setting = setting_of(list, tables.settings, out);
    if (!setting) continue;
    TRIMTAB_TRY(Model model, ModelMaker(list, *setting, operators).make());
    out.models.push_back({model.name + ".json", std::move(model)});
    made[{list.model, list.size}] = &out.models.back().model;
  }
  for (const Setting& setting : tables.settings) {
    const auto model = made.find({setting.model, setting.size});
    if (model == made.end()) {
      return bad_input("op_lists.json: expected the operators of " + setting.model + "/" + setting.size +
                       ", which models.csv has; they are not there");
    }
    TRIMTAB_TRY_STATUS(check_setting(setting, *model->second));
  }
  return {};
}

}  // namespace trimtab::published
