#include "published/galvatron/folder.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "documents/json_reader.hpp"
#include "published/text_file.hpp"

namespace trimtab::published {

namespace {

constexpr double kMaxMs = 1e9;
constexpr double kMaxMib = 1e9;
constexpr double kMaxRate = 1e6;  // GB/s
constexpr std::int32_t kSource = 1;
constexpr std::int32_t kMostKinds = 100;
constexpr IntegerLimits kHidden{1, 1 << 24, "a number of elements between 1 and 16777216"};
constexpr IntegerLimits kLayers{1, 200000, "a number of layers between 1 and 200000"};

// What is left of a name, taken from the front.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}
  bool literal(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool number(std::int32_t low, std::int32_t& value) {
    std::int32_t read = 0;
    const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), read);
    if (failure != std::errc{} || read < low) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    value = read;
    return true;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// "1nodes_8gpus_per_node".
bool take_shape(Words& words, GalvatronShape& shape) {
  return words.number(1, shape.nodes) && words.literal("nodes_") && words.number(1, shape.devices_per_node) &&
         words.literal("gpus_per_node");
}

bool is_precision(std::string_view word) {
  return word == "bf16" || word == "fp16" || word == "fp32";
}

// "2048", "4096_mlp"; "[512,512]" of several kinds of layers becomes "512-512".
bool read_sequence(std::string_view text, std::string& sequence) {
  const bool several = text.starts_with('[') && text.ends_with(']') && text.size() > 2;
  if (several) text = text.substr(1, text.size() - 2);
  sequence = std::string(text);
  if (several) std::replace(sequence.begin(), sequence.end(), ',', '-');
  return fit_for_a_file_name(sequence);
}

// "layertype_0_bsz8_seq2048", "layertype_other_bsz8_seq[512,512]".
struct GalvatronTimeKey {
  int kind = -1;  // -1: embedding and head, "other"
  std::int32_t batch = 0;
  std::string sequence;  // "2048", "512-512"; empty = not said
};

// False where the name is not of this form. `prefix`: "allreduce_bandwidth", "computation_profiling".
bool parse_hardware_file(std::string_view name, std::string_view prefix, GalvatronShape& shape) {
  Words words(name);
  return words.literal(prefix) && words.literal("_") && take_shape(words, shape) && words.rest() == ".json";
}

bool parse_model_file(std::string_view name, std::string_view prefix, GalvatronModelFile& file) {
  Words words(name);
  if (!words.literal(prefix) || !words.literal("_") || !words.rest().ends_with(".json")) return false;
  std::string_view rest = words.rest();
  rest.remove_suffix(5);
  const std::size_t end = rest.find('_');
  if (end == std::string_view::npos || !is_precision(rest.substr(0, end))) return false;
  file.precision = std::string(rest.substr(0, end));
  rest.remove_prefix(end + 1);
  if (rest.ends_with("_all")) rest.remove_suffix(4);
  file.model = std::string(rest);
  return fit_for_a_file_name(file.model);
}

bool parse_plan_file(std::string_view name, GalvatronPlanFile& file) {
  constexpr std::string_view kPrefix = "galvatron_config_";
  const std::size_t nodes = name.find("nodes_");
  // The end of the name tells plans apart and may have brackets.
  const auto printed = [](char c) { return c > ' ' && c <= '~'; };
  if (!name.starts_with(kPrefix) || !name.ends_with(".json") || nodes == std::string_view::npos) return false;
  if (!std::all_of(name.begin(), name.end(), printed)) return false;
  const std::size_t end = name.rfind('_', nodes);
  if (end == std::string_view::npos || end < kPrefix.size()) return false;
  file.model = std::string(name.substr(kPrefix.size(), end - kPrefix.size()));
  Words words(name.substr(end + 1));
  return take_shape(words, file.shape) && words.literal("_") && words.number(1, file.gib) && words.literal("GB_") &&
         fit_for_a_file_name(file.model);
}

bool parse_time_key(std::string_view key, GalvatronTimeKey& parsed) {
  Words words(key);
  if (!words.literal("layertype_")) return false;
  std::int32_t kind = -1;
  if (words.literal("other")) {
    // Some versions number the ends, too: "layertype_other_0_bsz8".
    Words numbered = words;
    std::int32_t number = 0;
    if (numbered.literal("_") && numbered.number(0, number)) words = numbered;
  } else if (!words.number(0, kind)) {
    return false;
  }
  parsed.kind = kind;
  if (words.literal("_bsz") && !words.number(1, parsed.batch)) return false;
  if (words.empty()) return true;
  return words.literal("_seq") && read_sequence(words.rest(), parsed.sequence);
}

double bounded(const JsonReader& in, double most, bool above_0) {
  const double value = in.number();
  if (!in.failed() && (value > most || (above_0 && value <= 0))) {
    in.fail(std::string(above_0 ? "a number above 0 and" : "a number of") + " at most " +
            std::to_string(static_cast<std::int64_t>(most)));
  }
  return value;
}

// "PREFIX4_consec_1": the number behind a prefix, and what is left.
bool number_behind(std::string_view key, std::string_view prefix, std::int32_t& number, std::string_view& rest) {
  if (!key.starts_with(prefix)) return false;
  key.remove_prefix(prefix.size());
  std::size_t digits = 0;
  number = 0;
  while (digits < key.size() && digits < 9 && key[digits] >= '0' && key[digits] <= '9') {
    number = number * 10 + (key[digits++] - '0');
  }
  rest = key.substr(digits);
  return digits > 0;
}

using Visit = std::function<void(const std::string&, const JsonReader&)>;

// One of Galvatron's files: an object, member by member.
Status each_member(const std::string& directory, const std::string& name, const Visit& visit) {
  TRIMTAB_TRY(const TextFile file, read_raw_file(directory, name));
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(file.text, file.path, ""));
  const JsonReader root = document.root();
  root.each_member([&](const std::string& key, const JsonReader& in) { visit(key, in); });
  TRIMTAB_TRY_STATUS(document.status());
  if (root.size() == 0) return bad_input(file.path + ": expected at least one measurement, found an empty object");
  return {};
}

class FolderReader {
 public:
  FolderReader(GalvatronFolders& folders, std::vector<std::string>& remarks) : folders_(folders), remarks_(remarks) {}

  Status read(const std::string& directory) {
    directory_ = directory;
    TRIMTAB_TRY(const std::vector<std::string> names, names_in(directory));
    std::size_t files = 0;
    for (const std::string& name : names) {
      TRIMTAB_TRY(const bool known, read_file(name));
      if (known) ++files;
    }
    if (files > 0) return {};
    return nothing_found(names);
  }

 private:
  Result<bool> read_file(const std::string& name) {
    GalvatronShape shape;
    GalvatronModelFile model;
    GalvatronPlanFile plan;
    Status status;
    if (parse_hardware_file(name, "allreduce_bandwidth", shape)) {
      status = read_all_reduces(name, shape);
    } else if (parse_hardware_file(name, "p2p_bandwidth", shape)) {
      status = read_transfers(name, shape);
    } else if (parse_hardware_file(name, "sp_time", shape)) {
      status = read_collectives(name, shape);
    } else if (name == "overlap_coefficient.json") {
      status = read_overlap(name);
    } else if (parse_model_file(name, "computation_profiling", model)) {
      status = read_times(name, model);
    } else if (parse_model_file(name, "memory_profiling", model)) {
      status = read_memory(name, model);
    } else if (parse_plan_file(name, plan)) {
      status = read_plan(name, plan);
    } else {
      return false;
    }
    if (!status.ok()) return status.error();
    return true;
  }

  // A second file of the same kind and shape would be another measurement of the same.
  Status once(const std::string& kind, const GalvatronShape& shape, const std::string& name) {
    const std::string key =
        kind + " of " + std::to_string(shape.nodes) + " x " + std::to_string(shape.devices_per_node) + " devices";
    if (seen_.insert(key).second) return {};
    return bad_input(directory_ + "/" + name + ": a second file of the " + key + "; give one of them");
  }

  static bool check_group(const JsonReader& in, std::int32_t group, const GalvatronShape& shape) {
    const std::int64_t devices = std::int64_t{shape.nodes} * shape.devices_per_node;
    if (group >= 2 && group <= devices) return true;
    in.refuse("expected a group of 2 to " + std::to_string(devices) + " devices, as the file's name says");
    return false;
  }

  Status read_all_reduces(const std::string& name, const GalvatronShape& shape) {
    TRIMTAB_TRY_STATUS(once("all-reduce bandwidths", shape, name));
    return each_member(directory_, name, [&](const std::string& key, const JsonReader& in) {
      GalvatronAllReduce row{kSource, shape, 1, 2, true, 0};
      std::string_view rest;
      const bool known =
          number_behind(key, "allreduce_size_", row.group_size, rest) && (rest == "_consec_0" || rest == "_consec_1");
      if (!known) return in.refuse("expected members called allreduce_size_N_consec_0 or _1");
      if (!check_group(in, row.group_size, shape)) return;
      row.consecutive = rest.ends_with('1');
      row.ms_per_mib = 1 / bounded(in, kMaxRate, true);
      if (!in.failed()) folders_.hardware.all_reduces.push_back(row);
    });
  }

  Status read_transfers(const std::string& name, const GalvatronShape& shape) {
    TRIMTAB_TRY_STATUS(once("transfer bandwidths", shape, name));
    return each_member(directory_, name, [&](const std::string& key, const JsonReader& in) {
      GalvatronTransfer row{kSource, shape, 2, 0};
      std::string_view rest;
      if (!number_behind(key, "pp_size_", row.pipeline, rest) || !rest.empty())
        return in.refuse("expected members called pp_size_N");
      if (!check_group(in, row.pipeline, shape)) return;
      row.ms_per_mib = 1 / bounded(in, kMaxRate, true);
      if (!in.failed()) folders_.hardware.transfers.push_back(row);
    });
  }

  Status read_collectives(const std::string& name, const GalvatronShape& shape) {
    TRIMTAB_TRY_STATUS(once("collective times", shape, name));
    return each_member(directory_, name, [&](const std::string& key, const JsonReader& in) {
      GalvatronCollective row{kSource, shape, "all_reduce", 2, 0, 0};
      std::string_view rest;
      const bool reduces = number_behind(key, "allreduce_size_", row.group_size, rest);
      if (!reduces) row.primitive = "all_to_all";
      std::int32_t mib = 0;
      const bool known = (reduces || number_behind(key, "all2all_size_", row.group_size, rest)) &&
                         number_behind(rest, "_", mib, rest) && rest == "MB_time" && mib >= 1 && mib <= 1 << 20;
      if (!known) return in.refuse("expected members called allreduce_size_N_MMB_time or all2all_size_N_MMB_time");
      if (!check_group(in, row.group_size, shape)) return;
      row.bytes = std::int64_t{mib} << 20;
      row.ms = bounded(in, kMaxMs, true);
      folders_.hardware.collectives.push_back(std::move(row));
    });
  }

  Status read_overlap(const std::string& name) {
    if (!folders_.hardware.overlaps.empty()) {
      return bad_input(directory_ + "/" + name + ": a second overlap coefficient; give one of them");
    }
    return each_member(directory_, name, [&](const std::string& key, const JsonReader& in) {
      if (key != "overlap_coe") return in.refuse("expected the one member overlap_coe");
      const double slowdown = bounded(in, 100, true);
      if (!in.failed() && slowdown < 1) in.fail("a slowdown of at least 1");
      folders_.hardware.overlaps.push_back({kSource, slowdown});
    });
  }

  GalvatronProfiled& model_of(const GalvatronModelFile& file) {
    for (GalvatronProfiled& one : folders_.models) {
      if (one.directory == directory_ && one.model == file.model && one.precision == file.precision) return one;
    }
    GalvatronProfiled fresh;
    fresh.directory = directory_;
    fresh.precision = file.precision;
    fresh.model = file.model;
    folders_.models.push_back(std::move(fresh));
    return folders_.models.back();
  }

  Status read_times(const std::string& name, const GalvatronModelFile& file) {
    GalvatronProfiled& model = model_of(file);
    TRIMTAB_TRY_STATUS(each_member(directory_, name, [&](const std::string& key, const JsonReader& in) {
      const double ms = in.signed_number_or(0);
      if (!in.failed() && !(ms >= -kMaxMs && ms <= kMaxMs)) in.fail("a time in ms, at most 1000000000");
      if (key.starts_with("layernum[")) return;  // whole models, of which the layers' times are the differences
      GalvatronTimeKey parsed;
      if (!parse_time_key(key, parsed) || parsed.kind >= kMostKinds) {
        return in.refuse("expected members called layertype_I_bszB_seqS, layertype_other_bszB_seqS or layernum[...]");
      }
      std::vector<GalvatronTime>& times = model.times[parsed.kind];
      const bool again = std::ranges::any_of(times, [&](const GalvatronTime& one) {
        return one.batch == parsed.batch && one.sequence == parsed.sequence;
      });
      if (again) return in.refuse("the same batch and sequence for a second time");
      times.push_back({parsed.batch, std::move(parsed.sequence), ms});
    }));
    if (model.times.empty()) {
      remarks_.push_back(directory_ + "/" + name +
                         ": times of whole models only: let Galvatron's profiler process them (layertype_...)");
    }
    return {};
  }

  // Of a rank count: "1", "2", ... as text.
  static std::size_t degree_of(const std::string& text) {
    std::size_t degree = 0;
    while (degree < kGalvatronDegrees && text != std::to_string(1 << degree)) ++degree;
    return degree;
  }

  static GalvatronSizes sizes_of(const JsonReader& in) {
    GalvatronSizes sizes;
    sizes.parameter_mib = bounded(in.at("parameter_size"), kMaxMib, true);
    const JsonReader kept = in.at("tp_activation_per_bsz_dict");
    kept.each_member([&](const std::string& ranks, const JsonReader& value) {
      const double mib = bounded(value, kMaxMib, false);
      const std::size_t degree = degree_of(ranks);
      if (ranks == "checkpoint") {
        sizes.recomputed_mib = mib;
      } else if (degree < sizes.activation_mib.size()) {
        sizes.activation_mib[degree] = mib;
      } else {
        value.refuse("expected counts of ranks (1, 2, 4, 8, 16) and checkpoint");
      }
    });
    if (!in.failed() && sizes.activation_mib[0] <= 0) kept.fail("what one rank keeps ('1'), above 0");
    return sizes;
  }

  // A number, or one for each count of vocabulary ranks, of which one rank's is taken.
  static double of_one_rank(const JsonReader& in) {
    return bounded(in.present() && in.json().is_object() ? in.at("1") : in, kMaxMib, false);
  }

  // A file says its sizes outright, or by the length of the sequence.
  static void by_sequence(const JsonReader& in, const char* field,
                          const std::function<void(const std::string&, const JsonReader&)>& visit) {
    if (in.at(field).present()) return visit("", in);
    if (in.size() == 0) return in.fail(std::string("an object with ") + field);
    in.each_member([&](const std::string& key, const JsonReader& one) {
      GalvatronTimeKey parsed;
      if (!parse_time_key("layertype_0_seq" + key, parsed)) return one.refuse("expected lengths of sequences");
      visit(parsed.sequence, one);
    });
  }

  static void read_memory_member(std::string_view key, const JsonReader& in, GalvatronProfiled& model) {
    std::string_view rest = key;
    const bool shared = rest.ends_with("_sp");
    if (shared) rest.remove_suffix(3);
    std::int32_t kind = 0;
    std::string_view behind;
    constexpr std::string_view kOther = "other_memory_";
    if (number_behind(rest, "layertype_", kind, behind) && behind.empty() && kind < kMostKinds) {
      by_sequence(in, "parameter_size", [&](const std::string& sequence, const JsonReader& one) {
        GalvatronSizes sizes = sizes_of(one);
        sizes.sequence_parallel = shared;
        sizes.sequence = sequence;
        model.sizes[kind].push_back(std::move(sizes));
      });
    } else if (rest == "other_memory_pp_off" || rest == "other_memory_pp_on_first" ||
               rest == "other_memory_pp_on_last") {
      by_sequence(in, "model_states", [&](const std::string& sequence, const JsonReader& one) {
        const double states = of_one_rank(one.at("model_states"));
        const GalvatronEnds memory{states, of_one_rank(one.at("activation"))};
        model.ends.push_back({std::string(rest.substr(kOther.size())), shared, sequence, memory});
      });
    } else {
      in.refuse("expected members called layertype_I, other_memory_... or P_T_D (raw readings)");
    }
  }

  Status read_memory(const std::string& name, const GalvatronModelFile& file) {
    GalvatronProfiled& model = model_of(file);
    TRIMTAB_TRY_STATUS(each_member(directory_, name, [&](const std::string& key, const JsonReader& in) {
      if (!key.empty() && key.front() >= '0' && key.front() <= '9') return;  // raw readings of a layout
      if (key != "model_config") return read_memory_member(key, in, model);
      model.hidden = in.at("dim").integer_or(0, kHidden);
      model.layers = in.at("n_layers").integer32_or(0, kLayers);
    }));
    if (model.sizes.empty()) {
      remarks_.push_back(directory_ + "/" + name +
                         ": readings of whole models only: let Galvatron's profiler process them (layertype_...)");
    }
    return {};
  }

  // Only what a document needs: how many layers, and the batch.
  Status read_plan(const std::string& name, const GalvatronPlanFile& file) {
    TRIMTAB_TRY(const TextFile text, read_raw_file(directory_, name));
    TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(text.text, text.path, ""));
    GalvatronPlanned plan{directory_, file, 0, 0};
    const JsonReader root = document.root();
    const std::string layers = root.at("tp_sizes_enc").text();
    plan.layers = static_cast<std::int32_t>(std::count(layers.begin(), layers.end(), ',') + 1);
    plan.global_batch = root.at("global_bsz").integer32(kPositive32);
    if (!document.failed() && plan.layers > kLayers.high) root.at("tp_sizes_enc").fail("at most 200000 layers");
    TRIMTAB_TRY_STATUS(document.status());
    folders_.plans.push_back(std::move(plan));
    return {};
  }

  [[nodiscard]] Error nothing_found(const std::vector<std::string>& names) const {
    return bad_input(
        directory_ +
        ": expected files that Galvatron's profilers write (allreduce_bandwidth_1nodes_8gpus_per_node.json, "
        "computation_profiling_bf16_MODEL_all.json and their like), found " +
        none_among(names) + "; give galvatron/profile_hardware/hardware_configs and a model's configs directory");
  }

  GalvatronFolders& folders_;
  std::vector<std::string>& remarks_;
  std::string directory_;
  std::set<std::string> seen_;
};

}  // namespace

Result<GalvatronFolders> read_galvatron_folders(const std::vector<std::string>& directories,
                                                std::vector<std::string>& remarks) {
  GalvatronFolders folders;
  folders.hardware.sources.emplace(kSource, GalvatronSource{});
  FolderReader reader(folders, remarks);
  for (const std::string& directory : directories) TRIMTAB_TRY_STATUS(reader.read(directory));
  return folders;
}

}  // namespace trimtab::published
