#include "published/galvatron/documents.hpp"

#include <algorithm>

#include "published/galvatron/operators.hpp"

namespace trimtab::published {

namespace {

constexpr const char* kPaperRepository = "Hsword/Hetu";

struct LayerRun {
  const char* cost_key;
  std::int32_t count;
};

struct Site {  // a cluster and the memory limits that were searched on it
  GalvatronShape shape;
  std::vector<std::int32_t> gib;
};

struct SearchedModel {
  const char* model;
  const char* size;
  std::int32_t global_batch;  // one that most of the published searches chose from
  std::vector<LayerRun> layers;
  GalvatronFamily family;
  const char* ends;   // the paper's model, or the family and name of the later rows
  double relief_mib;  // stated by the search scripts alone
  std::vector<Site> sites;
};

const std::vector<SearchedModel>& searched_models() {
  using enum GalvatronFamily;
  const std::vector<Site> both{{{1, 8}, {8, 12, 16, 20}}, {{2, 8}, {8, 16}}};
  const std::vector<Site> node{{{1, 8}, {8, 12, 16, 20}}};
  static const std::vector<SearchedModel> kModels{
      {"bert-huge", "32", 16, {{"bert-huge/enc", 32}}, kBert, "BERT-Huge", 120, both},
      {"bert-huge", "48", 16, {{"bert-huge/enc", 48}}, kBert, "BERT-Huge", 120, both},
      {"vit-huge", "32", 64, {{"vit-huge/enc", 32}}, kVit, "ViT-Huge", 7, both},
      {"vit-huge", "48", 64, {{"vit-huge/enc", 48}}, kVit, "ViT-Huge", 7, both},
      {"t5-large", "32", 16, {{"t5-large/enc", 16}, {"t5-large/dec", 16}}, kT5, "T5-Large", 140, node},
      {"t5-large", "48", 16, {{"t5-large/enc", 24}, {"t5-large/dec", 24}}, kT5, "T5-Large", 140, node},
      {"swin-huge",
       "32",
       64,
       {{"swin-huge/stage0", 2}, {"swin-huge/stage1", 2}, {"swin-huge/stage2", 26}, {"swin-huge/stage3", 2}},
       kSwin,
       "Swin-Huge",
       25,
       node},
      {"swin-huge",
       "48",
       64,
       {{"swin-huge/stage0", 2}, {"swin-huge/stage1", 2}, {"swin-huge/stage2", 42}, {"swin-huge/stage3", 2}},
       kSwin,
       "Swin-Huge",
       25,
       node},
      {"gpt",
       "1.5b",
       64,
       {{"gpt-hidden1600_head32_seqlen1024/layer0", 48}},
       kGpt,
       "gpt-hidden1600_head32_seqlen1024",
       0,
       {{{1, 4}, {16}}, {{1, 8}, {8, 16}}, {{2, 8}, {40}}}},
      {"gpt",
       "2.7b",
       64,
       {{"gpt-hidden2560_head32_seqlen2048/layer0", 32}},
       kGpt,
       "gpt-hidden2560_head32_seqlen2048",
       0,
       {{{1, 8}, {16, 24}}, {{2, 8}, {40}}}},
      {"gpt",
       "6.7b",
       64,
       {{"gpt-hidden4096_head32_seqlen2048/layer0", 32}},
       kGpt,
       "gpt-hidden4096_head32_seqlen2048",
       0,
       {{{1, 8}, {24}}, {{2, 8}, {34, 40}}}},
      {"llama",
       "7b",
       64,
       {{"llama-hidden4096_head32_seqlen2048/layer0", 32}},
       kGpt,
       "llama-hidden4096_head32_seqlen2048",
       0,
       {{{1, 8}, {24, 40}}, {{2, 8}, {40}}}},
      {"baichuan",
       "7b",
       64,
       {{"baichuan-hidden4096_head32_seqlen2048/layer0", 32}},
       kGpt,
       "baichuan-hidden4096_head32_seqlen2048",
       0,
       {{{2, 8}, {40}}}},
  };
  return kModels;
}

const GalvatronLayer* layer_of(const std::vector<GalvatronLayer>& layers, const std::string& cost_key) {
  const auto found = std::find_if(layers.begin(), layers.end(),
                                  [&](const GalvatronLayer& layer) { return layer.cost_key == cost_key; });
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
    facts.node = {row.node_states_mib, row.node_activation_mib};
    facts.whole = {row.whole_states_mib, row.whole_activation_mib};
    facts.first = {row.first_states_mib, row.first_activation_mib};
    facts.last = {row.last_states_mib, row.last_activation_mib};
  }
  for (const GalvatronEndMemory& row : tables.end_memory) {
    const bool same =
        row.plain && row.family + "-" + row.model == searched.ends && tables.sources.at(row.source).commit == commit;
    if (!same) continue;
    const GalvatronEnds ends{row.states_mib, row.activation_mib};
    if (row.where == "pp_off") facts.whole = ends;
    if (row.where == "pp_on_first") facts.first = ends;
    if (row.where == "pp_on_last") facts.last = ends;
  }
  return facts;
}

Result<Model> model_of(const SearchedModel& searched, const GalvatronTables& tables,
                       const std::vector<GalvatronLayer>& layers, std::string& commit) {
  Model model;
  model.name = std::string(searched.model) + "-" + searched.size;
  model.global_batch = searched.global_batch;
  for (const LayerRun& run : searched.layers) {
    const GalvatronLayer* const layer = layer_of(layers, run.cost_key);
    if (layer == nullptr) {
      return bad_input("model tables: expected the layer " + std::string(run.cost_key) + " of " + model.name +
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
  const auto found = std::find_if(profiles.begin(), profiles.end(), [&](const GalvatronProfile& profile) {
    return profile.commit == commit && profile.shape == shape && profile.has_links;
  });
  return found == profiles.end() ? nullptr : &*found;
}

}  // namespace

Status add_galvatron_documents(const GalvatronTables& tables, const std::vector<GalvatronLayer>& layers,
                               const std::vector<GalvatronProfile>& profiles, Published& out) {
  for (const SearchedModel& searched : searched_models()) {
    std::string commit;
    TRIMTAB_TRY(Model model, model_of(searched, tables, layers, commit));
    const std::string name = model.name;
    out.models.push_back({name + ".json", model});
    Model whole = with_galvatron_ends(model);
    const std::string whole_name = whole.name;
    out.models.push_back({whole_name + ".json", std::move(whole)});
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
  const auto negative = std::count_if(tables.layer_times.begin(), tables.layer_times.end(),
                                      [](const GalvatronLayerTime& row) { return row.ms_per_sample <= 0; });
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
