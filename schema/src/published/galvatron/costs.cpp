#include "published/galvatron/costs.hpp"

#include <cmath>
#include <set>
#include <tuple>

#include "published/measured.hpp"

namespace trimtab::published {

namespace {

constexpr std::int64_t kShortMessage = 1024;  // the ends of a line of bytes
constexpr std::int64_t kLongMessage = std::int64_t{1} << 34;
constexpr std::int32_t kManySamples = 1024;                       // the far end of a line of samples
constexpr std::int64_t kContextBytes = std::int64_t{1024} << 20;  // of a process, as both published versions take it
constexpr const char* kAuthors =
    "Y. Wang, Y. Jiang, X. Miao, F. Fu, S. Zhu, X. Nie, Y. Tu, B. Cui: Galvatron, PVLDB 16(3) 2022, and Galvatron-BMW, "
    "TKDE 2024";

Cost one(CostKey key, double value) {
  return measured(std::move(key), std::llround(value));
}

// What Galvatron's rules make of a measurement.
Cost by_rule(CostKey key, double value) {
  return measured(std::move(key), std::llround(value), CostSource{CostSource::Kind::kEstimated});
}

// Whether the group spans nodes: neighbours only where it is larger than one, strided ranks where there are several.
// With several stages a stage is a whole node or less.
bool spans_nodes(const GalvatronAllReduce& row) {
  if (row.shape.nodes == 1 || row.pipeline >= row.shape.nodes) return false;
  return !row.consecutive || row.group_size > row.shape.devices_per_node;
}

// A line of bytes, by its ends. `share`: of an all-reduce's volume that goes over the wire, `input_share`: of its size.
// Galvatron measures all-reduces, and takes others to be as fast.
void add_line(std::vector<Cost>& costs, const std::string& subject, const GalvatronAllReduce& row, double share,
              double input_share) {
  const double ranks = row.group_size;
  for (const std::int64_t bytes : {kShortMessage, kLongMessage}) {
    const double volume = 2 * (ranks - 1) / ranks * static_cast<double>(bytes) / kMib;
    const auto input = static_cast<std::int64_t>(static_cast<double>(bytes) * input_share);
    CostKey key = link_key(CostKind::kCollective, subject, "", input, row.group_size, spans_nodes(row));
    const double ns = row.ms_per_mib * volume * share * 1e6;
    costs.push_back(share < 1 ? by_rule(std::move(key), ns) : one(std::move(key), ns));
  }
}

// The subject tells measurements apart that a plain all-reduce does not know: several stages at once, strided ranks.
std::string all_reduce_subject(const GalvatronAllReduce& row) {
  std::string subject = "all_reduce";
  if (row.pipeline > 1) subject += ".pp" + std::to_string(row.pipeline);
  return row.consecutive ? subject : subject + ".strided";
}

void add_overlap(std::vector<Cost>& costs, const GalvatronAllReduce& row, double slowdown) {
  for (const CostKind kind : {CostKind::kOverlapComputation, CostKind::kOverlapCommunication}) {
    costs.push_back(
        one(link_key(kind, "all_reduce", "", kLongMessage, row.group_size, spans_nodes(row)), slowdown * 1e6));
  }
}

void add_all_reduce(std::vector<Cost>& costs, const GalvatronAllReduce& row, double slowdown) {
  const std::string subject = all_reduce_subject(row);
  add_line(costs, subject, row, 1, 1);
  // What a plan on whole nodes uses: one stage; neighbours on a node, strides across nodes.
  const bool plain = row.pipeline == 1 && (row.consecutive || spans_nodes(row));
  if (!plain) return;
  if (subject != "all_reduce") add_line(costs, "all_reduce", row, 1, 1);
  add_line(costs, "all_gather", row, 0.5, 1.0 / row.group_size);
  add_line(costs, "reduce_scatter", row, 0.5, 1);
  if (slowdown > 0) add_overlap(costs, row, slowdown);
}

void add_transfer(std::vector<Cost>& costs, const GalvatronTransfer& row) {
  for (const std::int64_t bytes : {kShortMessage, kLongMessage}) {
    const double ns = row.ms_per_mib * static_cast<double>(bytes) / kMib * 1e6;
    const std::string subject = "send_recv.pp" + std::to_string(row.pipeline);
    costs.push_back(one(link_key(CostKind::kCollective, subject, "", bytes, row.pipeline, row.shape.nodes > 1), ns));
    if (row.pipeline != 2) continue;  // two stages: every pair of neighbours, over the slowest link
    costs.push_back(one(link_key(CostKind::kPointToPoint, "send_recv", "", bytes, 0, row.shape.nodes > 1), ns));
  }
}

void add_layer_time(std::vector<Cost>& costs, const GalvatronLayerTime& row) {
  if (row.ms_per_sample <= 0) return;
  std::string subject = row.family + "-" + row.model + "/" +
                        (row.layer_type.starts_with("other") ? "embedding-head" : "layer" + row.layer_type);
  if (!row.sequence.empty()) subject += "-s" + row.sequence;
  subject += "@" + std::to_string(row.source);
  const auto add = [&](std::int32_t samples) {
    costs.push_back(one(operator_key(CostKind::kOperatorForward, subject, "bfloat16", samples, 1),
                        row.ms_per_sample * samples * 1e6));
  };
  if (row.batch > 0) return add(row.batch);
  add(1);
  add(kManySamples);
}

void add_layer_memory(std::vector<Cost>& costs, const GalvatronLayerMemory& row) {
  std::string subject = row.family + "-" + row.model + "/layer" + row.layer_type;
  if (row.sequence > 0) subject += "-s" + std::to_string(row.sequence);
  if (row.sequence_parallel) subject += "-sp";
  subject += "@" + std::to_string(row.source);
  const auto add = [&](CostKind kind, std::int32_t tp, double mib) {
    costs.push_back(one(operator_key(kind, subject, "bfloat16", 1, tp), mib * kMib));
  };
  for (std::size_t i = 0; i < row.activation_mib.size(); ++i) {
    if (row.activation_mib[i] > 0) add(CostKind::kOperatorStoredBytes, 1 << i, row.activation_mib[i]);
  }
  add(CostKind::kOperatorParameterBytes, 1, row.parameter_mib / 2);
  if (row.recomputed_mib > 0) add(CostKind::kOperatorInputBytes, 1, row.recomputed_mib);
}

// Forward times by count of samples: what was measured, or the ends of a line.
std::map<std::int32_t, double> forward_times(const GalvatronLayer& layer) {
  if (!layer.ms_at.empty()) return layer.ms_at;
  return {{1, layer.ms_per_sample}, {kManySamples, layer.ms_per_sample * kManySamples}};
}

// Times and memory of a searched layer for every count of ranks. Its profiler times forward passes of one rank alone;
// all other times are by Galvatron's rules.
void add_searched_layer(std::vector<Cost>& costs, const GalvatronTables& tables, const GalvatronShape& shape,
                        const GalvatronLayer& layer) {
  const double width = layer.dtype == "float32" ? 4 : 2;
  const double reductions = layer.kind == "decoder_layer" ? 3 : 2;  // in a forward pass, and again in a backward
  const double output = static_cast<double>(layer.sequence * layer.hidden) * width;
  for (std::size_t i = 0; i < layer.activation_mib.size(); ++i) {
    const std::int32_t tp = 1 << i;
    if (tp > shape.nodes * shape.devices_per_node || (tp > 1 && layer.activation_mib[i] <= 0)) continue;
    const double link = tp == 1 ? 0 : neighbours_ms_per_mib(tables, layer.commit, shape, tp);
    const double volume_mib = 2.0 * (tp - 1) / tp * output / kMib;
    for (const auto& [samples, ms] : forward_times(layer)) {
      const auto add = [&, many = samples](CostKind kind, double value) {
        if (value > 0) costs.push_back(one(operator_key(kind, layer.cost_key, layer.dtype, many, tp), value));
      };
      const auto add_by_rule = [&, many = samples](CostKind kind, double value) {
        if (value > 0) costs.push_back(by_rule(operator_key(kind, layer.cost_key, layer.dtype, many, tp), value));
      };
      add(CostKind::kOperatorStoredBytes, layer.activation_mib[i] * kMib * samples);
      const double kept = layer.recomputed_mib > 0 ? layer.recomputed_mib * kMib : output;
      add(CostKind::kOperatorInputBytes, kept * samples);
      if (tp > 1 && (link <= 0 || output <= 0)) continue;
      const double forward = ms / tp;
      const double communication = reductions * volume_mib * samples * link;
      if (tp == 1) add(CostKind::kOperatorForward, forward * 1e6);
      if (tp > 1) add_by_rule(CostKind::kOperatorForward, (forward + communication) * 1e6);
      add_by_rule(CostKind::kOperatorBackward, (2 * forward + communication) * 1e6);
    }
  }
}

Fingerprint fingerprint_of(const GalvatronProfile& profile, const std::string& date, const std::vector<Cost>& costs) {
  Fingerprint fingerprint;
  const bool paper = profile.repository == "Hsword/Hetu";
  const std::string shape =
      profile.has_links ? std::to_string(profile.shape.nodes) + "x" + std::to_string(profile.shape.devices_per_node)
                        : "models";
  fingerprint.device = {{"testbed", (paper ? "galvatron-titan-" : "galvatron-") + shape}};
  if (profile.repository.empty()) {  // somebody's own run of the profiler, or a file that looks like one
    fingerprint.environment = {{"profile", date}, {"profiler", "Galvatron's"}, {"digest", digest(costs)}};
    return fingerprint;
  }
  // The later repository does not name its GPU; its maintainers say A100.
  fingerprint.device["gpu"] = paper ? "RTX TITAN 24GB" : "A100 (as its maintainers say)";
  if (paper) fingerprint.fabric = {{"intra_node", "PCIe 3.0"}};
  fingerprint.environment = {{"profile", "galvatron-" + date},
                             {"published_by", kAuthors},
                             {"repository", "https://github.com/" + profile.repository},
                             {"commit", profile.commit},
                             {"licence", "Apache-2.0"},
                             {"digest", digest(costs)}};
  return fingerprint;
}

// The digits behind `name`, "hidden4096_head32_seqlen2048"; 0 where there are none.
std::int64_t size_in(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name);
  if (at == std::string::npos) return 0;
  std::int64_t value = 0;
  for (std::size_t i = at + name.size(); i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

GalvatronLayer paper_layer(const GalvatronTables& tables, const GalvatronPaperLayer& row) {
  GalvatronLayer layer;
  layer.cost_key = lower(row.model) + "/" + row.layer_type;
  layer.kind = row.layer_type == "dec" ? "decoder_layer" : "encoder_layer";
  layer.dtype = "float32";
  layer.sequence = row.sequence;
  layer.hidden = row.hidden;
  layer.ms_per_sample = row.ms_per_sample;
  layer.parameter_mib = row.parameter_mib;
  layer.activation_mib = row.activation_mib;
  layer.source = row.source;
  layer.commit = tables.sources.at(row.source).commit;
  return layer;
}

}  // namespace

Result<std::vector<GalvatronLayer>> galvatron_layers(const GalvatronTables& tables) {
  std::vector<GalvatronLayer> layers;
  for (const GalvatronPaperLayer& row : tables.paper_layers) layers.push_back(paper_layer(tables, row));
  std::set<std::string> linked;  // commits that came with measured links
  for (const GalvatronAllReduce& row : tables.all_reduces) linked.insert(tables.sources.at(row.source).commit);
  for (const GalvatronLayerMemory& row : tables.layer_memory) {
    const std::string& commit = tables.sources.at(row.source).commit;
    const std::int64_t hidden = size_in(row.model, "hidden");
    const std::int64_t sequence = size_in(row.model, "seqlen");
    if (linked.count(commit) == 0 || hidden == 0 || sequence == 0 || row.sequence_parallel || row.sequence > 0)
      continue;
    for (const GalvatronLayerTime& time : tables.layer_times) {
      const bool same = time.family == row.family && time.model == row.model && time.layer_type == row.layer_type &&
                        tables.sources.at(time.source).commit == commit && time.batch == 0 && time.sequence.empty() &&
                        time.ms_per_sample > 0;
      if (!same) continue;
      GalvatronLayer layer;
      layer.cost_key = row.family + "-" + row.model + "/layer" + row.layer_type;
      layer.kind = "decoder_only_layer";
      layer.dtype = "bfloat16";
      layer.sequence = sequence;
      layer.hidden = hidden;
      layer.ms_per_sample = time.ms_per_sample;
      layer.parameter_mib = row.parameter_mib;
      layer.activation_mib = row.activation_mib;
      layer.recomputed_mib = row.recomputed_mib;
      layer.source = row.source;
      layer.commit = commit;
      layers.push_back(std::move(layer));
      break;
    }
  }
  std::set<std::pair<std::string, std::string>> seen;
  for (const GalvatronLayer& layer : layers) {
    if (!seen.emplace(layer.commit, layer.cost_key).second) {
      return bad_input("model_layer_memory.csv: two rows of " + layer.cost_key + " of commit " + layer.commit);
    }
  }
  return layers;
}

Result<std::vector<GalvatronProfile>> galvatron_costs(const GalvatronTables& tables,
                                                      const std::vector<GalvatronLayer>& layers) {
  using Key = std::tuple<std::string, std::string, GalvatronShape>;  // repository, commit, shape
  std::map<Key, GalvatronProfile> profiles;
  std::map<std::string, std::vector<Key>> of_commit;
  const auto profile_of = [&](std::int32_t source, const GalvatronShape& shape, bool links) -> GalvatronProfile& {
    const GalvatronSource& from = tables.sources.at(source);
    const Key key{from.repository, from.commit, shape};
    const auto [at, fresh] =
        profiles.try_emplace(key, GalvatronProfile{from.repository, from.commit, shape, links, {}});
    if (fresh) of_commit[from.commit].push_back(key);
    return at->second;
  };
  std::map<std::string, double> slowdown;
  for (const GalvatronOverlap& row : tables.overlaps) slowdown[tables.sources.at(row.source).commit] = row.slowdown;
  for (const GalvatronAllReduce& row : tables.all_reduces) {
    const auto found = slowdown.find(tables.sources.at(row.source).commit);
    add_all_reduce(profile_of(row.source, row.shape, true).published.costs, row,
                   found == slowdown.end() ? 0 : found->second);
  }
  for (const GalvatronTransfer& row : tables.transfers) {
    add_transfer(profile_of(row.source, row.shape, true).published.costs, row);
  }
  for (const GalvatronCollective& row : tables.collectives) {
    const CostKey key = link_key(CostKind::kCollective, row.primitive, "", row.bytes, row.group_size, false);
    profile_of(row.source, row.shape, true).published.costs.push_back(one(key, row.ms * 1e6));
  }
  // A model's rows belong to every cluster that their commit measured, or stand alone.
  const auto each_profile = [&](std::int32_t source, const auto& add) {
    const std::string& commit = tables.sources.at(source).commit;
    if (of_commit[commit].empty()) profile_of(source, {}, false);
    for (const Key& key : of_commit[commit]) add(profiles.at(key).published.costs);
  };
  for (const GalvatronLayerTime& row : tables.layer_times) {
    each_profile(row.source, [&](std::vector<Cost>& costs) { add_layer_time(costs, row); });
  }
  for (const GalvatronLayerMemory& row : tables.layer_memory) {
    each_profile(row.source, [&](std::vector<Cost>& costs) { add_layer_memory(costs, row); });
  }
  for (const GalvatronLayer& layer : layers) {
    if (of_commit[layer.commit].empty()) profile_of(layer.source, {}, false);
    for (const Key& key : of_commit[layer.commit]) {
      GalvatronProfile& profile = profiles.at(key);
      add_searched_layer(profile.published.costs, tables, profile.shape, layer);
    }
  }
  std::vector<GalvatronProfile> result;
  for (auto& [key, profile] : profiles) {
    PublishedCosts& published = profile.published;
    if (profile.has_links) {
      published.costs.push_back(measured(operator_key(CostKind::kProcessBytes, "process", "", 0, 1), kContextBytes));
    }
    std::string date;
    for (const auto& [number, source] : tables.sources) {
      if (source.commit == profile.commit) date = source.date;
    }
    published.fingerprint = fingerprint_of(profile, date, published.costs);
    published.source =
        profile.repository.empty() ? "import:galvatron" : "import:" + profile.repository + "@" + profile.commit;
    published.origin = "import:galvatron/" + hash(published.fingerprint);
    result.push_back(std::move(profile));
  }
  return result;
}

}  // namespace trimtab::published
