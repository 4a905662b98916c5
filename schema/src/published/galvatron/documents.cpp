#include <algorithm>
#include <cmath>

#include "published/galvatron/costs.hpp"
#include "published/measured.hpp"

namespace trimtab::published {

namespace {

constexpr const char* kPaperRepository = "Hsword/Hetu";

struct LayerRun {
  std::string cost_key;
  std::int32_t count;
};

struct Site {  // a cluster and the memory limits that were searched on it
  GalvatronShape shape;
  std::vector<std::int32_t> gib;
};

struct SearchedModel {
  std::string model;
  std::string size;
  std::int32_t global_batch;  // one that most of the published searches chose from
  std::vector<LayerRun> layers;
  GalvatronFamily family;
  std::string ends;   // the paper's model, or the family and name of the later rows
  double relief_mib;  // stated by the search scripts alone
  std::vector<Site> sites;
};

// One of those that the second version came with. `shape`: as its rows name it.
SearchedModel later_model(const std::string& model, const std::string& size, std::int32_t layers,
                          const std::string& shape, std::vector<Site> sites) {
  const std::string name = model + "-" + shape;
  return {model, size, 64, {{name + "/layer0", layers}}, GalvatronFamily::kGpt, name, 0, std::move(sites)};
}

SearchedModel swin_huge(const std::string& size, std::int32_t middle, std::vector<Site> sites) {
  std::vector<LayerRun> stages{
      {"swin-huge/stage0", 2}, {"swin-huge/stage1", 2}, {"swin-huge/stage2", middle}, {"swin-huge/stage3", 2}};
  return {"swin-huge", size, 64, std::move(stages), GalvatronFamily::kSwin, "Swin-Huge", 25, std::move(sites)};
}

const std::vector<SearchedModel>& searched_models() {
  using enum GalvatronFamily;
  const std::vector<Site> both{{{1, 8}, {8, 12, 16, 20}}, {{2, 8}, {8, 16}}};
  const std::vector<Site> node{{{1, 8}, {8, 12, 16, 20}}};
  const std::string narrow = "hidden1600_head32_seqlen1024", middle = "hidden2560_head32_seqlen2048";
  const std::string wide = "hidden4096_head32_seqlen2048";
  static const std::vector<SearchedModel> kModels{
      {"bert-huge", "32", 16, {{"bert-huge/enc", 32}}, kBert, "BERT-Huge", 120, both},
      {"bert-huge", "48", 16, {{"bert-huge/enc", 48}}, kBert, "BERT-Huge", 120, both},
      {"vit-huge", "32", 64, {{"vit-huge/enc", 32}}, kVit, "ViT-Huge", 7, both},
      {"vit-huge", "48", 64, {{"vit-huge/enc", 48}}, kVit, "ViT-Huge", 7, both},
      {"t5-large", "32", 16, {{"t5-large/enc", 16}, {"t5-large/dec", 16}}, kT5, "T5-Large", 140, node},
      {"t5-large", "48", 16, {{"t5-large/enc", 24}, {"t5-large/dec", 24}}, kT5, "T5-Large", 140, node},
      swin_huge("32", 26, node),
      swin_huge("48", 42, node),
      later_model("gpt", "1.5b", 48, narrow, {{{1, 4}, {16}}, {{1, 8}, {8, 16}}, {{2, 8}, {40}}}),
      later_model("gpt", "2.7b", 32, middle, {{{1, 8}, {16, 24}}, {{2, 8}, {40}}}),
      later_model("gpt", "6.7b", 32, wide, {{{1, 8}, {24}}, {{2, 8}, {34, 40}}}),
      later_model("llama", "7b", 32, wide, {{{1, 8}, {24, 40}}, {{2, 8}, {40}}}),
      later_model("baichuan", "7b", 32, wide, {{{2, 8}, {40}}}),
  };
  return kModels;
}

const GalvatronLayer* layer_of(const std::vector<GalvatronLayer>& layers, const std::string& cost_key) {
  const auto found = std::ranges::find(layers, cost_key, &GalvatronLayer::cost_key);
  return found == layers.end() ? nullptr : &*found;
}

// Embedding and head: from the paper's scripts, or from the rows that were published with the model.
GalvatronFacts facts_of(const SearchedModel& searched, const GalvatronTables& tables, const std::string& commit) {
  GalvatronFacts facts;
  facts.family = searched.family;
  facts.microbatch_relief_mib = searched.relief_mib;
  for (const GalvatronPaperLayer& row : tables.paper_layers) {
    if (row.model != searched.ends) continue;
    facts.overhead_ms = row.overhead_ms;
    facts.node = row.node;
    facts.whole = row.whole;
    facts.first = row.first;
    facts.last = row.last;
  }
  for (const GalvatronEndMemory& row : tables.end_memory) {
    const bool same =
        row.plain && row.family + "-" + row.model == searched.ends && tables.sources.at(row.source).commit == commit;
    if (!same) continue;
    if (row.where == "pp_off") facts.whole = row.memory;
    if (row.where == "pp_on_first") facts.first = row.memory;
    if (row.where == "pp_on_last") facts.last = row.memory;
  }
  return facts;
}

Result<Model> model_of(const SearchedModel& searched, const GalvatronTables& tables,
                       const std::vector<GalvatronLayer>& layers, std::string& commit) {
  Model model;
  model.name = searched.model + "-" + searched.size;
  model.global_batch = searched.global_batch;
  for (const LayerRun& run : searched.layers) {
    const GalvatronLayer* const layer = layer_of(layers, run.cost_key);
    if (layer == nullptr) {
      return bad_input("model tables: expected the layer " + run.cost_key + " of " + model.name +
                       ", found no row of it");
    }
    commit = layer->commit;
    model.dtype = layer->dtype;
    for (std::int32_t i = 0; i < run.count; ++i) {
      model.operators.push_back(galvatron_operator(*layer, static_cast<std::int32_t>(model.operators.size())));
    }
  }
  // Parameters, gradients and two moments of Adam, each as large as float32 parameters; gradients travel in the
  // model's own type.
  model.gradient_bytes_per_parameter_byte = 1;
  model.optimizer_bytes_per_parameter_byte = model.dtype == "float32" ? 2 : 6;
  model.galvatron = facts_of(searched, tables, commit);
  return model;
}

const GalvatronProfile* profile_of(const std::vector<GalvatronProfile>& profiles, const std::string& commit,
                                   const GalvatronShape& shape) {
  const auto found = std::ranges::find_if(profiles, [&](const GalvatronProfile& profile) {
    return profile.commit == commit && profile.shape == shape && profile.has_links;
  });
  return found == profiles.end() ? nullptr : &*found;
}

// Embedding or head as an operator: parameters by the states that were published, a product with each of them for a
// head, an addition for each element of what an embedding gives.
Operator end_operator(const Model& model, const Operator& neighbour, bool head, double states_mib,
                      double activation_mib) {
  const std::int64_t width = model.dtype == "float32" ? 4 : 2;
  Operator op;
  op.name = op.kind = head ? "head" : "embedding";
  op.layer = neighbour.layer;
  op.cost_key = neighbour.cost_key.substr(0, neighbour.cost_key.find('/')) + "/" + op.kind;
  op.parameter_bytes = std::llround(states_mib / 4 * kMib * static_cast<double>(width) / 4);
  op.output_bytes = head ? 0 : neighbour.output_bytes;
  op.activation_bytes = std::max<Bytes>(op.output_bytes, std::llround(activation_mib * kMib));
  const std::int64_t sequence = neighbour.shape.at("sequence");
  op.forward_flops = head ? 2 * op.parameter_bytes / width * sequence : neighbour.output_bytes / width;
  return op;
}

// For transfers that nobody measured: two neighbours reduce as many bytes as they would send.
Link link_of(const GalvatronTables& tables, const GalvatronProfile& profile, bool inter_node) {
  Link link;
  link.level = inter_node ? "inter_node" : "intra_node";
  const double ms_per_mib = inter_node ? 0 : neighbours_ms_per_mib(tables, profile.commit, profile.shape, 2);
  if (ms_per_mib > 0) link.bandwidth_bytes_per_s = kMib / ms_per_mib * 1000;
  return link;
}

}  // namespace

double neighbours_ms_per_mib(const GalvatronTables& tables, const std::string& commit, const GalvatronShape& shape,
                             std::int32_t ranks) {
  for (const GalvatronAllReduce& row : tables.all_reduces) {
    const bool here = tables.sources.at(row.source).commit == commit && row.shape == shape;
    if (here && row.pipeline == 1 && row.group_size == ranks && row.consecutive) return row.ms_per_mib;
  }
  return 0;
}

Operator galvatron_operator(const GalvatronLayer& layer, std::int32_t index) {
  Operator op;
  op.name = "layer" + std::to_string(index);
  op.kind = layer.kind;
  op.layer = index;
  op.cost_key = layer.cost_key;
  op.shape = {{"sequence", layer.sequence}, {"hidden", layer.hidden}};
  const int width = layer.dtype == "float32" ? 4 : 2;
  op.parameter_bytes = std::llround(layer.parameter_mib * kMib * width / 4);
  op.activation_bytes = std::llround(layer.activation_mib[0] * kMib);
  op.output_bytes = layer.sequence * layer.hidden * width;
  op.forward_flops = 2 * op.parameter_bytes / width * layer.sequence;
  op.tensor_all_reduces = layer.kind == "decoder_layer" ? 3 : 2;
  return op;
}

void add_galvatron_models(Model layers, Published& out) {
  const GalvatronFacts& facts = *layers.galvatron;
  Model model = layers;
  model.name += "-whole";
  model.galvatron.reset();
  const double first = std::max(0.0, facts.whole.activation_mib - facts.last.activation_mib);
  model.operators.insert(model.operators.begin(),
                         end_operator(layers, layers.operators.front(), false, facts.first.states_mib, first));
  model.operators.push_back(
      end_operator(layers, layers.operators.back(), true, facts.last.states_mib, facts.last.activation_mib));
  for (Model* one : {&layers, &model}) out.models.push_back({one->name + ".json", std::move(*one)});
}

Cluster galvatron_cluster(const GalvatronTables& tables, const GalvatronProfile& profile, Bytes memory) {
  const std::string fingerprint = hash(profile.published.fingerprint);
  Cluster cluster;
  cluster.nodes = equal_nodes(profile.shape.nodes, {"", fingerprint, profile.shape.devices_per_node, memory});
  cluster.links.push_back(link_of(tables, profile, false));
  if (profile.shape.nodes > 1) cluster.links.push_back(link_of(tables, profile, true));
  return cluster;
}

Status add_galvatron_documents(const GalvatronTables& tables, const std::vector<GalvatronLayer>& layers,
                               const std::vector<GalvatronProfile>& profiles, Published& out) {
  for (const SearchedModel& searched : searched_models()) {
    std::string commit;
    TRIMTAB_TRY(Model model, model_of(searched, tables, layers, commit));
    const std::string name = model.name;
    add_galvatron_models(std::move(model), out);
    std::size_t settings = 0;
    for (const Site& site : searched.sites) settings += site.gib.size();
    for (const Site& site : searched.sites) {
      const GalvatronProfile* const profile = profile_of(profiles, commit, site.shape);
      if (profile == nullptr) {
        return bad_input("hardware tables: expected group sizes of " + std::to_string(site.shape.nodes) + " x " +
                         std::to_string(site.shape.devices_per_node) + " devices of commit " + commit + " for " + name +
                         ", found none");
      }
      for (const std::int32_t gib : site.gib) {
        const std::string place =
            std::to_string(site.shape.nodes * site.shape.devices_per_node) + "x-" + std::to_string(gib) + "g";
        out.clusters.push_back({settings == 1 ? name + ".cluster.json" : name + "-" + place + ".cluster.json",
                                galvatron_cluster(tables, *profile, Bytes{gib} << 30)});
      }
    }
  }
  const auto negative =
      std::ranges::count_if(tables.layer_times, [](const GalvatronLayerTime& row) { return row.ms_per_sample <= 0; });
  if (negative > 0) {
    out.remarks.push_back("model_layer_time.csv: " + std::to_string(negative) +
                          " times are 0 or less, differences of two models lost in noise: not stored");
  }
  out.remarks.emplace_back(
      "Galvatron publishes times per sample and per byte: costs are stored as the ends of those lines. Backward times, "
      "times of tensor-parallel ranks, all-gathers and reduce-scatters follow its own rules "
      "(docs/planners/galvatron.md).");
  out.remarks.emplace_back(
      "'NAME-whole.json' is NAME with embedding and head as operators, for the native cost model: parameters by their "
      "published states, times by their flops (2 for each parameter and token) where estimates are allowed.");
  out.remarks.emplace_back(
      "Not published: times of embedding and head of the paper's models, optimizer steps, working memory; '" +
      std::string(kPaperRepository) +
      "' timed transfers between stages on two nodes alone. A native prediction needs "
      "--allow-estimates.");
  return {};
}

}  // namespace trimtab::published
