#include <utility>

#include "base/text_parts.hpp"
#include "documents/json_document.hpp"
#include "published/aceso/costs.hpp"
#include "published/formats.hpp"
#include "published/galvatron/costs.hpp"
#include "published/galvatron/folder.hpp"
#include "published/text_file.hpp"

namespace trimtab {

namespace published {

namespace {

Error neutral_alone(const std::string& directory) {
  return bad_input(directory +
                   ": the neutral tables are one directory and say everything: give nothing else beside it");
}

// The authors' folders; or one directory of our neutral tables.
Result<AcesoTables> read_aceso_files(const std::vector<std::string>& directories, const ProfileSupplement& supplement,
                                     std::vector<std::string>& remarks) {
  TRIMTAB_TRY(const std::vector<std::string> names, names_in(directories.front()));
  if (holds_neutral_aceso_tables(names)) {
    if (directories.size() > 1 || !supplement.empty()) return neutral_alone(directories.front());
    return read_aceso_tables(directories.front());
  }
  TRIMTAB_TRY(AcesoTables tables, read_aceso_folders(directories, remarks));
  add_aceso_settings(tables, supplement, remarks);
  return tables;
}

Result<Published> read_aceso(const std::vector<std::string>& directories, const ProfileSupplement& supplement) {
  if (supplement.hidden > 0 || supplement.sequence > 0) {
    return bad_input("--hidden-size and --sequence-length: Aceso's profiles need neither");
  }
  Published out;
  TRIMTAB_TRY(const AcesoTables tables, read_aceso_files(directories, supplement, out.remarks));
  const ProfiledOperators operators = group_operators(tables);
  TRIMTAB_TRY(std::vector<ProfileCosts> costs, aceso_costs(tables, operators));
  TRIMTAB_TRY_STATUS(add_aceso_models(tables, operators, out));
  TRIMTAB_TRY_STATUS(add_aceso_clusters(tables, costs, out));
  for (ProfileCosts& profile : costs) out.costs.push_back(std::move(profile.published));
  return out;
}

Result<Published> read_neutral_galvatron(const std::string& directory) {
  TRIMTAB_TRY(const GalvatronTables tables, read_galvatron_tables(directory));
  TRIMTAB_TRY(const std::vector<GalvatronLayer> layers, galvatron_layers(tables));
  TRIMTAB_TRY(std::vector<GalvatronProfile> profiles, galvatron_costs(tables, layers));
  Published out;
  TRIMTAB_TRY_STATUS(add_galvatron_documents(tables, layers, profiles, out));
  for (GalvatronProfile& profile : profiles) out.costs.push_back(std::move(profile.published));
  return out;
}

Result<Published> read_galvatron(const std::vector<std::string>& directories, const ProfileSupplement& supplement) {
  TRIMTAB_TRY(const std::vector<std::string> names, names_in(directories.front()));
  if (holds_neutral_galvatron_tables(names)) {
    if (directories.size() > 1 || !supplement.empty()) return neutral_alone(directories.front());
    return read_neutral_galvatron(directories.front());
  }
  if (supplement.nodes > 0 || supplement.devices_per_node > 0) {
    return bad_input("--nodes and --devices-per-node: the names of Galvatron's hardware files say them");
  }
  std::vector<std::string> remarks;
  TRIMTAB_TRY(const GalvatronFolders folders, read_galvatron_folders(directories, remarks));
  return galvatron_from_folders(folders, supplement, std::move(remarks));
}

Result<Published> read_traces_with(const std::vector<std::string>& paths, ProfileSupplement supplement) {
  const std::int32_t devices_per_node = std::exchange(supplement.devices_per_node, 0);
  if (!supplement.empty()) {
    return bad_input(
        "the format traces needs no word but --devices-per-node: expected no other option about layers, "
        "batches, nodes or devices");
  }
  return read_trace_costs(paths, devices_per_node);
}

}  // namespace

}  // namespace published

const std::vector<std::string_view>& published_formats() {
  static const std::vector<std::string_view> kFormats{"aceso",      "galvatron", "nccl-inspector",
                                                      "nccl-tests", "oases",     "traces"};
  return kFormats;
}

bool ProfileSupplement::empty() const {
  return layers.empty() && hidden == 0 && sequence == 0 && global_batch == 0 && nodes == 0 && devices_per_node == 0 &&
         device_memory == 0;
}

Result<Published> read_published(std::string_view format, const std::vector<std::string>& paths,
                                 const ProfileSupplement& supplement) {
  if (paths.empty()) return bad_input("the format " + std::string(format) + " needs something to read, found nothing");
  if (format == "aceso") return published::read_aceso(paths, supplement);
  if (format == "galvatron") return published::read_galvatron(paths, supplement);
  if (format == "traces") return published::read_traces_with(paths, supplement);
  const bool known = format == "oases" || format == "nccl-tests" || format == "nccl-inspector";
  if (known && !supplement.empty()) {
    return bad_input("the format " + std::string(format) +
                     " says everything: expected no options about layers, batches, nodes or devices");
  }
  if (format == "nccl-tests") return published::read_nccl_tests(paths);
  if (format == "nccl-inspector") return published::read_nccl_inspector(paths);
  if (format == "oases" && paths.size() != 1) {
    return bad_input("the format oases is one directory, found " + std::to_string(paths.size()));
  }
  if (format == "oases") return published::read_oases(paths.front());
  return bad_input("--format: expected a published format (" + joined(published_formats()) + "), found " +
                   quoted_text(format));
}

}  // namespace trimtab
