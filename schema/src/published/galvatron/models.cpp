#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <set>

#include "published/galvatron/costs.hpp"
#include "published/galvatron/folder.hpp"
#include "published/text_file.hpp"

namespace trimtab::published {

namespace {

constexpr std::int32_t kManySamples = 1024;  // the far end of a line of samples

// A model that Galvatron came with, as its model configurations state it.
struct GalvatronKnownModel {
  std::string name;
  std::int64_t sequence;             // 0: as the profile says
  std::vector<std::int64_t> hidden;  // of each kind of layer
  std::vector<std::int32_t> layers;  // likewise
};

// Null where it is not one of them.
const GalvatronKnownModel* galvatron_known_model(const std::string& name) {
  // model_configs/ of the newest version, meta_configs/ and the READMEs of the versions before.
  static const std::vector<GalvatronKnownModel> kModels{
      {"gpt-0.3b", 1024, {1024}, {24}},
      {"gpt-1.5b", 1024, {1600}, {48}},
      {"gpt-2.7b", 2048, {2560}, {32}},
      {"gpt-6.7b", 2048, {4096}, {32}},
      {"gpt2-small", 0, {768}, {12}},
      {"gpt2-xl", 0, {1600}, {48}},
      {"llama-7b", 2048, {4096}, {32}},
      {"llama-13b", 0, {5120}, {40}},
      {"llama2-7b", 0, {4096}, {32}},
      {"llama2-70b", 0, {8192}, {80}},
      {"baichuan-7b", 2048, {4096}, {32}},
      {"mistral-7b", 0, {4096}, {32}},
      {"mixtral-8x7b", 0, {4096}, {32}},
      {"qwen2.5-7b", 0, {3584}, {28}},
      {"qwen2.5-72b", 0, {8192}, {80}},
      {"t5-3B", 0, {1024, 1024}, {24, 24}},
      {"swin-huge", 0, {320, 640, 1280, 2560}, {2, 2, 42, 2}},
  };
  const auto found = std::ranges::find(kModels, name, &GalvatronKnownModel::name);
  return found == kModels.end() ? nullptr : &*found;
}

// "gpt" of ".../models/gpt/configs"; empty elsewhere.
std::string galvatron_directory_family(const std::string& directory) {
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::weakly_canonical(directory, failure);
  if (path.filename() != "configs") return "";
  const std::string family = path.parent_path().filename().string();
  return fit_for_a_file_name(family) ? family : "";
}

// By the model's name, or that of the directory that its files lie in ("models/bert_hf/configs").
GalvatronFamily galvatron_family(const std::string& model, const std::string& directory) {
  std::string text = galvatron_directory_family(directory) + " " + model;
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  if (has("bert")) return GalvatronFamily::kBert;
  if (has("t5")) return GalvatronFamily::kT5;
  if (has("swin")) return GalvatronFamily::kSwin;
  return has("vit") ? GalvatronFamily::kVit : GalvatronFamily::kGpt;
}

// The digits behind `word`, "hidden4096_head32_seqlen2048"; 0 where there are none.
std::int64_t number_in(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  std::int64_t value = 0;
  if (at != std::string::npos) {
    std::from_chars(text.data() + at + word.size(), text.data() + text.size(), value);
  }
  return value >= 0 && value <= std::int64_t{1} << 24 ? value : 0;
}

std::string dtype_of(const std::string& precision) {
  return precision == "bf16" ? "bfloat16" : precision == "fp16" ? "float16" : "float32";
}

// Galvatron's rule over batches: the least-squares line through the times of whole batches. At most 0 where noise makes
// it fall.
double line_at(const std::map<std::int32_t, double>& ms_at, double samples) {
  const auto count = static_cast<double>(ms_at.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [at, ms] : ms_at) {
    x += at;
    y += ms;
    xx += static_cast<double>(at) * at;
    xy += at * ms;
  }
  const double slope = (count * xy - x * y) / (count * xx - x * x);
  return slope <= 0 ? 0 : (y - slope * x) / count + slope * samples;
}

// What a kind of layer took at one length of sequence: a line, or points with the end of their line.
void set_times(const std::vector<GalvatronTime>& times, const std::string& sequence, GalvatronLayer& layer) {
  std::map<std::int32_t, double> ms_at;
  for (const GalvatronTime& time : times) {
    if (time.sequence != sequence || time.ms_per_sample <= 0) continue;
    if (time.batch == 0) layer.ms_per_sample = time.ms_per_sample;
    if (time.batch > 0) ms_at[time.batch] = time.ms_per_sample * time.batch;
  }
  if (ms_at.size() == 1) layer.ms_per_sample = ms_at.begin()->second / ms_at.begin()->first;
  if (ms_at.size() < 2) return;
  const double far = ms_at.rbegin()->first < kManySamples ? line_at(ms_at, kManySamples) : 0;
  if (far > ms_at.rbegin()->second) ms_at[kManySamples] = far;
  layer.ms_per_sample = ms_at.rbegin()->second / ms_at.rbegin()->first;
  layer.ms_at = std::move(ms_at);
}

// The row of one sequence: without sequence parallelism where there are both. Rows that name no sequence are of any.
template <typename Row>
const Row* row_of(const std::vector<Row>& rows, const std::string& sequence) {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (row.sequence != sequence && !row.sequence.empty()) continue;
    if (best == nullptr || (best->sequence_parallel && !row.sequence_parallel)) best = &row;
  }
  return best;
}

class ModelMaker {
 public:
  ModelMaker(const GalvatronFolders& folders, const ProfileSupplement& supplement, std::vector<std::string> remarks)
      : folders_(folders), supplement_(supplement) {
    out_.remarks = std::move(remarks);
  }

  Result<Published> make() {
    for (const GalvatronProfiled& profiled : folders_.models) TRIMTAB_TRY_STATUS(add_lengths(profiled));
    GalvatronTables tables = folders_.hardware;
    tables.sources.at(1).date = profile_name();
    TRIMTAB_TRY(profiles_, galvatron_costs(tables, layers_));
    for (const Made& made : made_) add_documents(made);
    for (const auto& [lack, names] : without_documents_) {
      out_.remarks.push_back(some_of(names) +
                             ": costs only, no documents: neither the files nor Galvatron's models say "
                             "everything; " +
                             lack);
    }
    for (GalvatronProfile& profile : profiles_) out_.costs.push_back(std::move(profile.published));
    if (out_.costs.empty()) {
      return bad_input(
          "nothing to store: expected times of layers (computation_profiling_*.json) or bandwidths "
          "(allreduce_bandwidth_*.json), found neither; give hardware_configs and a model's configs" +
          remark_text());
    }
    out_.remarks.emplace_back(
        "Galvatron's own rules complete what it measures: a backward pass takes two forward passes, n tensor-parallel "
        "ranks an n-th and their all-reduces, a gather or scatter half an all-reduce (docs/planners/galvatron.md)");
    return std::move(out_);
  }

 private:
  // A model at one length of its sequences.
  struct Made {
    const GalvatronProfiled* profiled;
    std::string name;
    std::string sequence;
    std::vector<GalvatronLayer> kinds;
  };

  [[nodiscard]] static std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
    return names.size() <= kShown ? text : text + " and " + std::to_string(names.size() - kShown) + " more";
  }

  [[nodiscard]] std::string remark_text() const {
    std::string text;
    for (const std::string& remark : out_.remarks) text += "; " + remark;
    return text;
  }

  [[nodiscard]] std::string profile_name() const {
    std::string name;
    for (const Made& made : made_) name += (name.empty() ? "" : "+") + made.name;
    if (name.size() > 80) name = std::to_string(made_.size()) + "-models";
    return name.empty() ? "hardware" : name;
  }

  [[nodiscard]] static std::string base_name(const GalvatronProfiled& profiled) {
    const std::string family = galvatron_directory_family(profiled.directory);
    return profiled.model.starts_with("hidden") && !family.empty() ? family + "-" + profiled.model : profiled.model;
  }

  // The lengths that were timed. Of several kinds of layers one each: "512-512".
  [[nodiscard]] static std::set<std::string> lengths(const GalvatronProfiled& profiled) {
    std::set<std::string> all;
    const auto first = profiled.times.lower_bound(0);
    if (first == profiled.times.end()) return all;
    for (const GalvatronTime& time : first->second) all.insert(time.sequence);
    if (std::next(first) == profiled.times.end()) return all;
    return {""};
  }

  Status add_lengths(const GalvatronProfiled& profiled) {
    const std::set<std::string> all = lengths(profiled);
    if (all.empty()) return {};
    for (const std::string& length : all) {
      Made made{&profiled, base_name(profiled), length, {}};
      if (all.size() > 1) made.name += "-s" + length;
      add_kinds(made);
      if (made.kinds.empty()) continue;
      if (!names_.insert(made.name).second) {
        return bad_input(profiled.directory + ": a second model called " + made.name +
                         "; give one of them, or directories that are called MODEL/configs");
      }
      add_ends(made);
      layers_.insert(layers_.end(), made.kinds.begin(), made.kinds.end());
      made_.push_back(std::move(made));
    }
    return {};
  }

  [[nodiscard]] std::int64_t hidden_of(const GalvatronProfiled& profiled, std::size_t kind) const {
    if (supplement_.hidden > 0) return supplement_.hidden;
    if (profiled.hidden > 0) return profiled.hidden;
    if (const std::int64_t named = number_in(profiled.model, "hidden"); named > 0) return named;
    const GalvatronKnownModel* const known = galvatron_known_model(profiled.model);
    return known != nullptr && kind < known->hidden.size() ? known->hidden[kind] : 0;
  }

  [[nodiscard]] std::int64_t sequence_of(const GalvatronProfiled& profiled, const std::string& measured) const {
    if (const std::int64_t said = number_in("=" + measured, "="); said > 0) return said;
    if (supplement_.sequence > 0) return supplement_.sequence;
    return number_in(profiled.model, "seqlen");
  }

  // The kinds of layers that have times, with their sizes where there are some.
  void add_kinds(Made& made) {
    const GalvatronProfiled& profiled = *made.profiled;
    for (auto kind = profiled.times.lower_bound(0); kind != profiled.times.end(); ++kind) {
      std::string length = made.sequence;
      const bool several = profiled.times.lower_bound(0) != std::prev(profiled.times.end());
      if (several) length = kind->second.front().sequence;
      GalvatronLayer layer;
      layer.cost_key = made.name + "/layer" + std::to_string(kind->first);
      layer.dtype = dtype_of(profiled.precision);
      layer.sequence = sequence_of(profiled, length);
      layer.hidden = hidden_of(profiled, made.kinds.size());
      layer.kind = kind_of(profiled, made.kinds.size());
      set_times(kind->second, length, layer);
      if (layer.ms_per_sample <= 0) {
        out_.remarks.push_back(layer.cost_key + ": its time is 0 or less, a difference lost in noise: not stored");
        continue;
      }
      const auto sizes = profiled.sizes.find(kind->first);
      const GalvatronSizes* const row = sizes == profiled.sizes.end() ? nullptr : row_of(sizes->second, length);
      if (row != nullptr) {
        layer.parameter_mib = row->parameter_mib;
        layer.activation_mib = row->activation_mib;
        layer.recomputed_mib = row->recomputed_mib;
      }
      made.kinds.push_back(std::move(layer));
    }
  }

  [[nodiscard]] static std::string kind_of(const GalvatronProfiled& profiled, std::size_t kind) {
    switch (galvatron_family(profiled.model, profiled.directory)) {
      case GalvatronFamily::kGpt:
        return "decoder_only_layer";
      case GalvatronFamily::kT5:
        return kind == 1 ? "decoder_layer" : "encoder_layer";
      default:
        return "encoder_layer";
    }
  }

  [[nodiscard]] static GalvatronEnds end_of(const Made& made, const char* where) {
    std::vector<GalvatronEndSizes> rows;
    for (const GalvatronEndSizes& row : made.profiled->ends) {
      if (row.where == where) rows.push_back(row);
    }
    const GalvatronEndSizes* row = row_of(rows, made.sequence);
    if (row == nullptr && rows.size() == 1) row = &rows.front();  // of several kinds of layers together
    return row == nullptr ? GalvatronEnds{} : row->memory;
  }

  // Embedding and head were timed together. Galvatron gives each a half.
  void add_ends(Made& made) {
    const auto times = made.profiled->times.find(-1);
    if (times == made.profiled->times.end()) return;
    GalvatronLayer both;
    const bool several = made.kinds.size() > 1;
    set_times(times->second, several ? times->second.front().sequence : made.sequence, both);
    if (both.ms_per_sample <= 0) return;
    const GalvatronEnds whole = end_of(made, "pp_off");
    const GalvatronEnds last = end_of(made, "pp_on_last");
    for (const bool head : {false, true}) {
      GalvatronLayer end = made.kinds[head ? made.kinds.size() - 1 : 0];
      end.cost_key = made.name + (head ? "/head" : "/embedding");
      end.kind = head ? "head" : "embedding";
      end.ms_per_sample = both.ms_per_sample / 2;
      end.ms_at = both.ms_at;
      for (auto& [samples, ms] : end.ms_at) ms /= 2;
      end.activation_mib = {};
      end.activation_mib[0] = head ? last.activation_mib : std::max(0.0, whole.activation_mib - last.activation_mib);
      end.recomputed_mib = 0;
      layers_.push_back(std::move(end));
    }
  }

  // The authors' plans of this model: by its name, or by the width and length that its name stands for.
  [[nodiscard]] std::vector<const GalvatronPlanned*> plans_of(const Made& made) const {
    std::vector<const GalvatronPlanned*> plans;
    for (const GalvatronPlanned& plan : folders_.plans) {
      if (plan.directory != made.profiled->directory) continue;
      const GalvatronKnownModel* const known = galvatron_known_model(plan.file.model);
      const GalvatronLayer& layer = made.kinds.front();
      const bool shaped = known != nullptr && known->sequence > 0 && known->hidden.front() == layer.hidden &&
                          known->sequence == layer.sequence;
      if (plan.file.model == made.profiled->model || shaped) plans.push_back(&plan);
    }
    return plans;
  }

  [[nodiscard]] std::vector<std::int32_t> layers_of(const Made& made,
                                                    const std::vector<const GalvatronPlanned*>& plans) const {
    if (!supplement_.layers.empty()) return supplement_.layers;
    if (made.kinds.size() == 1 && made.profiled->layers > 0) return {made.profiled->layers};
    if (made.kinds.size() == 1 && !plans.empty()) return {plans.front()->layers};
    const GalvatronKnownModel* const known = galvatron_known_model(made.profiled->model);
    return known == nullptr ? std::vector<std::int32_t>{} : known->layers;
  }

  // What a document still lacks, as words for a remark; empty = nothing.
  [[nodiscard]] std::string missing(const Made& made, const std::vector<std::int32_t>& layers,
                                    std::int32_t batch) const {
    std::vector<std::string> say;
    if (layers.size() != made.kinds.size()) {
      say.push_back("--layers with " + std::to_string(made.kinds.size()) +
                    (made.kinds.size() == 1 ? " count" : " counts"));
    }
    const auto lacks = [&](auto field) {
      return std::ranges::any_of(made.kinds, [&](const GalvatronLayer& layer) { return layer.*field <= 0; });
    };
    if (lacks(&GalvatronLayer::hidden)) say.emplace_back("--hidden-size");
    if (lacks(&GalvatronLayer::sequence)) say.emplace_back("--sequence-length");
    if (batch == 0) say.emplace_back("--global-batch");
    std::string text;
    for (const std::string& one : say) text += (text.empty() ? "say " : " and ") + one;
    if (lacks(&GalvatronLayer::parameter_mib)) {
      text += (text.empty() ? "" : "; ") + std::string("give memory_profiling_") + made.profiled->precision + "_" +
              made.profiled->model + "_all.json with its layers at this length, too";
    }
    return text;
  }

  void add_documents(const Made& made) {
    const std::vector<const GalvatronPlanned*> plans = plans_of(made);
    const std::vector<std::int32_t> layers = layers_of(made, plans);
    const std::int32_t batch =
        supplement_.global_batch > 0 ? supplement_.global_batch : (plans.empty() ? 0 : plans.front()->global_batch);
    if (const std::string text = missing(made, layers, batch); !text.empty()) {
      without_documents_[text].push_back(made.name);
      return;
    }
    Model model;
    model.name = made.name;
    model.global_batch = batch;
    model.dtype = made.kinds.front().dtype;
    for (std::size_t kind = 0; kind < made.kinds.size(); ++kind) {
      for (std::int32_t i = 0; i < layers[kind]; ++i) {
        model.operators.push_back(
            galvatron_operator(made.kinds[kind], static_cast<std::int32_t>(model.operators.size())));
      }
    }
    // As of the published models: parameters, gradients and two moments of Adam, each as large as float32 parameters.
    model.gradient_bytes_per_parameter_byte = 1;
    model.optimizer_bytes_per_parameter_byte = model.dtype == "float32" ? 2 : 6;
    GalvatronFacts facts;
    facts.family = galvatron_family(made.profiled->model, made.profiled->directory);
    facts.whole = facts.node = end_of(made, "pp_off");
    facts.first = end_of(made, "pp_on_first");
    facts.last = end_of(made, "pp_on_last");
    model.galvatron = facts;
    add_galvatron_models(std::move(model), out_);
    add_clusters(made, plans);
  }

  // One for each measured cluster and memory limit that a plan was searched for, or that was said.
  void add_clusters(const Made& made, const std::vector<const GalvatronPlanned*>& plans) {
    std::vector<std::pair<const GalvatronProfile*, Bytes>> settings;
    for (const GalvatronProfile& profile : profiles_) {
      if (!profile.has_links) continue;
      std::set<Bytes> memory;
      for (const GalvatronPlanned* plan : plans) {
        if (plan->file.shape == profile.shape) memory.insert(Bytes{plan->file.gib} << 30);
      }
      if (supplement_.device_memory > 0) memory = {supplement_.device_memory};
      for (const Bytes bytes : memory) settings.emplace_back(&profile, bytes);
    }
    for (const auto& [profile, bytes] : settings) {
      const std::string place = std::to_string(profile->shape.nodes * profile->shape.devices_per_node) + "x-" +
                                std::to_string((bytes + (1 << 29)) >> 30) + "g";
      out_.clusters.push_back(
          {settings.size() == 1 ? made.name + ".cluster.json" : made.name + "-" + place + ".cluster.json",
           galvatron_cluster(folders_.hardware, *profile, bytes)});
    }
    if (!settings.empty()) return;
    const bool links = std::ranges::any_of(profiles_, &GalvatronProfile::has_links);
    out_.remarks.push_back(made.name + ": no cluster document: " +
                           (links ? "no plan says its devices' memory; say --device-memory"
                                  : "give the directory of its hardware, too (hardware_configs)"));
  }

  const GalvatronFolders& folders_;
  const ProfileSupplement& supplement_;
  std::vector<Made> made_;
  std::set<std::string> names_;
  std::vector<GalvatronLayer> layers_;
  std::vector<GalvatronProfile> profiles_;
  std::map<std::string, std::vector<std::string>> without_documents_;  // by what they lack
  Published out_;
};

}  // namespace

Result<Published> galvatron_from_folders(const GalvatronFolders& folders, const ProfileSupplement& supplement,
                                         std::vector<std::string> remarks) {
  return ModelMaker(folders, supplement, std::move(remarks)).make();
}

}  // namespace trimtab::published
