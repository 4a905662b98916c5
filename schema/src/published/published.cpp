#include "schema/published.hpp"

#include <utility>

#include "json_document.hpp"
#include "published/aceso_costs.hpp"
#include "published/aceso_documents.hpp"
#include "published/aceso_rows.hpp"
#include "published/galvatron_documents.hpp"
#include "published/nccl_tests_costs.hpp"
#include "published/oases_documents.hpp"

namespace trimtab {

namespace published {

Result<AcesoTables> read_aceso_tables(const std::string& directory) {
  AcesoTables tables;
  TRIMTAB_TRY(tables.settings, read_settings(directory));
  TRIMTAB_TRY(tables.lists, read_operator_lists(directory));
  TRIMTAB_TRY(tables.transfers, read_transfer_rows(directory));
  TRIMTAB_TRY(tables.collectives, read_collective_rows(directory));
  TRIMTAB_TRY(tables.operators, read_operator_rows(directory));
  return tables;
}

namespace {

Result<Published> read_aceso(const std::string& directory) {
  TRIMTAB_TRY(const AcesoTables tables, read_aceso_tables(directory));
  const ProfiledOperators operators = group_operators(tables);
  TRIMTAB_TRY(std::vector<ProfileCosts> costs, aceso_costs(tables, operators));
  Published out;
  TRIMTAB_TRY_STATUS(add_aceso_models(tables, operators, out));
  TRIMTAB_TRY_STATUS(add_aceso_clusters(tables, costs, out));
  for (ProfileCosts& profile : costs) out.costs.push_back(std::move(profile.published));
  return out;
}

Result<Published> read_oases(const std::string& directory) {
  TRIMTAB_TRY(const std::vector<OasesRow> rows, read_oases_profile(directory));
  return oases_documents(rows);
}

Result<Published> read_galvatron(const std::string& directory) {
  TRIMTAB_TRY(const GalvatronTables tables, read_galvatron_tables(directory));
  TRIMTAB_TRY(const std::vector<GalvatronLayer> layers, galvatron_layers(tables));
  TRIMTAB_TRY(std::vector<GalvatronProfile> profiles, galvatron_costs(tables, layers));
  Published out;
  TRIMTAB_TRY_STATUS(add_galvatron_documents(tables, layers, profiles, out));
  for (GalvatronProfile& profile : profiles) out.costs.push_back(std::move(profile.published));
  return out;
}

}  // namespace

}  // namespace published

const std::vector<std::string_view>& published_formats() {
  static const std::vector<std::string_view> kFormats{"aceso", "galvatron", "nccl-tests", "oases"};
  return kFormats;
}

Result<Published> read_published(std::string_view format, const std::vector<std::string>& paths) {
  if (format == "nccl-tests") return published::read_nccl_tests(paths);
  const bool directory = format == "aceso" || format == "galvatron" || format == "oases";
  if (directory && paths.size() != 1) {
    return bad_input("the format " + std::string(format) + " is one directory, found " + std::to_string(paths.size()));
  }
  if (format == "aceso") return published::read_aceso(paths.front());
  if (format == "galvatron") return published::read_galvatron(paths.front());
  if (format == "oases") return published::read_oases(paths.front());
  std::string known;
  for (const std::string_view name : published_formats()) known += (known.empty() ? "" : ", ") + std::string(name);
  return bad_input("--format: expected a published format (" + known + "), found " + quoted_text(format));
}

}  // namespace trimtab
