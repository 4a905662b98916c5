#include <algorithm>
#include <set>

#include "published/aceso/tables.hpp"

namespace trimtab::published {

namespace {

// A size as profiler/model_configs.py, search/aceso_utils.py and the search scripts state it.
struct KnownModel {
  const char* model;
  const char* size;
  const char* profile_model;
  const char* profile_size;
  std::int32_t layers;
  TransformerSizes sizes;
  std::int32_t nodes, devices_per_node;
};

// "scale-layer" and T5-22B repeat the layers of a profile that another size has.
constexpr KnownModel kKnown[] = {
    {"gpt", "350M", "gpt", "350M", 24, {2048, 0, 1024, 4096, 16, 64, 51200}, 1, 1},
    {"gpt", "1_3B", "gpt", "1_3B", 24, {2048, 0, 2048, 8192, 32, 64, 51200}, 1, 4},
    {"gpt", "2_6B", "gpt", "2_6B", 32, {2048, 0, 2560, 10240, 32, 80, 51200}, 1, 8},
    {"gpt", "6_7B", "gpt", "6_7B", 32, {2048, 0, 4096, 16384, 32, 128, 51200}, 2, 8},
    {"gpt", "13B", "gpt", "13B", 40, {2048, 0, 5120, 20480, 40, 128, 51200}, 4, 8},
    {"t5", "770M", "t5", "770M", 24, {2048, 512, 1024, 4096, 16, 64, 30592}, 1, 1},
    {"t5", "3B", "t5", "3B", 24, {2048, 512, 1024, 16384, 32, 128, 30592}, 1, 4},
    {"t5", "6B", "t5", "6B", 24, {2048, 512, 1024, 32768, 64, 128, 30592}, 1, 8},
    {"t5", "11B", "t5", "11B", 24, {2048, 512, 1024, 65536, 128, 128, 30592}, 2, 8},
    {"t5", "22B", "t5", "11B", 48, {2048, 512, 1024, 65536, 128, 128, 30592}, 4, 8},
    {"resnet", "500M", "resnet", "500M", 0, {}, 1, 1},
    {"resnet", "1B", "resnet", "1B", 0, {}, 0, 0},
    {"resnet", "2B", "resnet", "2B", 0, {}, 1, 4},
    {"resnet", "4B", "resnet", "4B", 0, {}, 1, 8},
    {"resnet", "6_8B", "resnet", "6_8B", 0, {}, 2, 8},
    {"resnet", "13B", "resnet", "13B", 0, {}, 4, 8},
    {"scale-layer", "8layers", "gpt", "scale-layer", 8, {2048, 0, 512, 2048, 8, 64, 51200}, 1, 8},
    {"scale-layer", "16layers", "gpt", "scale-layer", 16, {2048, 0, 512, 2048, 8, 64, 51200}, 1, 8},
    {"scale-layer", "32layers", "gpt", "scale-layer", 32, {2048, 0, 512, 2048, 8, 64, 51200}, 1, 8},
    {"scale-layer", "64layers", "gpt", "scale-layer", 64, {2048, 0, 512, 2048, 8, 64, 51200}, 1, 8},
    {"scale-layer", "128layers", "gpt", "scale-layer", 128, {2048, 0, 512, 2048, 8, 64, 51200}, 1, 8},
    {"scale-layer", "256layers", "gpt", "scale-layer", 256, {2048, 0, 512, 2048, 8, 64, 51200}, 1, 8},
    {"scale-layer", "512layers", "gpt", "scale-layer", 512, {2048, 0, 512, 2048, 8, 64, 51200}, 1, 8},
    {"scale-layer", "1024layers", "gpt", "scale-layer", 1024, {2048, 0, 512, 2048, 8, 64, 51200}, 1, 8},
};
constexpr Bytes kSearchedMemory = Bytes{28000} << 20;  // of a V100, as the search scripts limit it
constexpr std::int64_t kMostOperators = 200000;        // more would not fit into a model document

// What was profiled of one model and size, of all databases together.
struct Profiled {
  std::vector<std::string> order;   // its operators, from the first table
  std::set<std::string> unsharded;  // those that were measured on one rank, in the first way
  std::set<std::int32_t> samples;
  bool published = false;  // on the testbed of the authors' searches
};
using ProfiledSizes = std::map<std::pair<std::string, std::string>, Profiled>;

ProfiledSizes profiled_sizes(const AcesoTables& tables) {
  ProfiledSizes sizes;
  for (const OperatorRow& row : tables.operators) {
    Profiled& of = sizes[{row.profile.model, row.profile.size}];
    const bool whole = row.tp == 1 && !row.alternate;
    if (whole && of.unsharded.insert(row.op).second) of.order.push_back(row.op);
    of.samples.insert(row.samples);
    const bool own = std::ranges::count(tables.own, row.profile.database) > 0;
    of.published = of.published || (row.profile.database == "eurosys" && !own);
  }
  return sizes;
}

// GPT: embedding, 13 operators a layer, two behind. T5: the same with an encoder's end, then a decoder of 21 a layer.
// ResNet: every operator once. Nothing where the profile has not as many.
std::vector<OperatorBlock> blocks_of(const std::string& model, const std::vector<std::string>& order,
                                     std::int32_t layers) {
  struct Part {
    std::size_t operators;
    bool repeated;
  };
  static const std::vector<Part> kGpt{{1, false}, {13, true}, {2, false}};
  static const std::vector<Part> kT5{{1, false}, {13, true}, {2, false}, {21, true}, {2, false}};
  if (model == "resnet") return {{1, order}};
  std::vector<OperatorBlock> blocks;
  auto next = order.begin();
  for (const Part& part : model == "gpt" ? kGpt : kT5) {
    if (static_cast<std::size_t>(order.end() - next) < part.operators) return {};
    const auto end = next + static_cast<std::ptrdiff_t>(part.operators);
    blocks.push_back({part.repeated ? layers : 1, {next, end}});
    next = end;
  }
  return next == order.end() ? blocks : std::vector<OperatorBlock>{};
}

const char* operators_expected(const std::string& model) {
  return model == "gpt" ? "16 (embedding, 13 of a layer, 2 behind)" : "39 (13 of an encoder layer, 21 of a decoder's)";
}

class SettingMaker {
 public:
  SettingMaker(AcesoTables& tables, const ProfileSupplement& supplement, std::vector<std::string>& remarks)
      : tables_(tables), supplement_(supplement), remarks_(remarks), sizes_(profiled_sizes(tables)) {}

  void make() {
    for (const KnownModel& known : kKnown) {
      const auto size = sizes_.find({known.profile_model, known.profile_size});
      if (size == sizes_.end()) continue;
      known_.insert(size->first);
      add(known.model, known.size, size->first, size->second, &known);
    }
    for (const auto& [name, size] : sizes_) {
      if (known_.count(name) == 0) add(name.first, name.second, name, size, nullptr);
    }
    if (without_cluster_.empty()) return;
    remarks_.push_back("no cluster documents of " + without_cluster_ +
                       ": the profile does not say on how many devices it shall train; say --nodes, "
                       "--devices-per-node and --device-memory");
  }

 private:
  using Name = std::pair<std::string, std::string>;

  void add(const std::string& model, const std::string& size, const Name& profile, const Profiled& profiled,
           const KnownModel* known) {
    const std::string name = model + "-" + size;
    const std::int32_t layers = layers_of(model, known);
    const bool has_layers = layers > 0 || profile.first == "resnet";
    const std::int32_t batch = supplement_.global_batch > 0 ? supplement_.global_batch
                               : known == nullptr           ? 0
                               : profile.first == "resnet"  ? 1536
                                                            : 1024;
    if (!has_layers || batch == 0) {
      remarks_.push_back(name + ": no documents: not a size that Aceso's authors published; say " +
                         (has_layers ? "" : "--layers (how often its layer repeats) and ") + "--global-batch");
      return;
    }
    OperatorList list{model, size, profile.first, profile.second, blocks_of(profile.first, profiled.order, layers)};
    std::int64_t operators = 0;
    for (const OperatorBlock& block : list.blocks) {
      operators += std::int64_t{block.repeat} * static_cast<std::int64_t>(block.operators.size());
    }
    if (list.blocks.empty() || operators > kMostOperators) {
      remarks_.push_back(name + ": no documents: expected " +
                         (list.blocks.empty() ? operators_expected(profile.first) : "at most 200000") +
                         " operators on one rank, found " +
                         std::to_string(list.blocks.empty() ? std::int64_t(profiled.order.size()) : operators));
      return;
    }
    tables_.lists.push_back(std::move(list));
    Setting setting = setting_of(profiled, known);
    setting.model = model;
    setting.size = size;
    setting.dtype = profile.first == "resnet" ? "float32" : "float16";
    setting.operators = static_cast<std::int32_t>(operators);
    setting.global_batch = batch;
    setting.main_parameter_multiple = profile.first == "resnet" ? 0 : 2;
    setting.optimizer_multiple = profile.first == "resnet" ? 2 : 4;
    if (setting.nodes == 0) without_cluster_ += (without_cluster_.empty() ? "" : ", ") + name;
    tables_.settings.push_back(std::move(setting));
  }

  // What was said goes before what was published, but for the sizes that are named after their layers.
  [[nodiscard]] std::int32_t layers_of(const std::string& model, const KnownModel* known) const {
    if (!supplement_.layers.empty() && model != "scale-layer") return supplement_.layers.front();
    return known == nullptr ? 0 : known->layers;
  }

  // Shape, microbatches and cluster.
  [[nodiscard]] Setting setting_of(const Profiled& profiled, const KnownModel* known) const {
    Setting setting;
    setting.microbatches.assign(profiled.samples.begin(), profiled.samples.end());
    setting.nodes = 0;
    if (known != nullptr) static_cast<TransformerSizes&>(setting) = known->sizes;
    if (known != nullptr && profiled.published) {
      const bool resnet = known->sizes.hidden == 0;
      setting.microbatches = resnet ? std::vector<std::int32_t>{16, 32, 48, 64} : std::vector<std::int32_t>{1, 2, 4, 8};
      setting.nodes = known->nodes;
      setting.devices_per_node = known->devices_per_node;
      setting.memory_limit = kSearchedMemory;
    }
    if (supplement_.devices_per_node > 0 && supplement_.device_memory > 0) {
      setting.nodes = std::max(1, supplement_.nodes);
      setting.devices_per_node = supplement_.devices_per_node;
      setting.memory_limit = supplement_.device_memory;
    }
    return setting;
  }

  AcesoTables& tables_;
  const ProfileSupplement& supplement_;
  std::vector<std::string>& remarks_;
  ProfiledSizes sizes_;
  std::set<Name> known_;
  std::string without_cluster_;
};

}  // namespace

void add_aceso_settings(AcesoTables& tables, const ProfileSupplement& supplement, std::vector<std::string>& remarks) {
  SettingMaker(tables, supplement, remarks).make();
}

}  // namespace trimtab::published
