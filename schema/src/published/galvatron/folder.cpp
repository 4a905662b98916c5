#include "published/galvatron/folder.hpp"

#include <algorithm>
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
      const bool again = std::any_of(times.begin(), times.end(), [&](const GalvatronTime& one) {
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
  static int degree_of(const std::string& text) {
    for (int i = 0; i < kGalvatronDegrees; ++i) {
      if (text == std::to_string(1 << i)) return i;
    }
    return -1;
  }

  static GalvatronSizes sizes_of(const JsonReader& in) {
    GalvatronSizes sizes;
    sizes.parameter_mib = bounded(in.at("parameter_size"), kMaxMib, true);
    const JsonReader kept = in.at("tp_activation_per_bsz_dict");
    kept.each_member([&](const std::string& ranks, const JsonReader& value) {
      const double mib = bounded(value, kMaxMib, false);
      const int degree = degree_of(ranks);
      if (ranks == "checkpoint") {
        sizes.recomputed_mib = mib;
      } else if (degree >= 0) {
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
        model.ends.push_back({std::string(rest.substr(kOther.size())), shared, sequence,
                              of_one_rank(one.at("model_states")), of_one_rank(one.at("activation"))});
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
        (names.empty() ? "an empty directory"
                       : "none among " + std::to_string(names.size()) + " names, of which the first is " +
                             quoted_text(names.front())) +
        "; give galvatron/profile_hardware/hardware_configs and a model's configs directory");
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
