#include "schema/published.hpp"

#include <utility>

#include "json_document.hpp"
#include "published/aceso_costs.hpp"
#include "published/aceso_documents.hpp"
#include "published/aceso_rows.hpp"
#include "published/nccl_tests_costs.hpp"

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

}  // namespace

}  // namespace published

const std::vector<std::string_view>& published_formats() {
  static const std::vector<std::string_view> kFormats{"aceso", "nccl-tests"};
  return kFormats;
}

Result<Published> read_published(std::string_view format, const std::vector<std::string>& paths) {
  if (format == "nccl-tests") return published::read_nccl_tests(paths);
  if (format == "aceso" && paths.size() == 1) return published::read_aceso(paths.front());
  if (format == "aceso") return bad_input("the format aceso is one directory, found " + std::to_string(paths.size()));
  std::string known;
  for (const std::string_view name : published_formats()) known += (known.empty() ? "" : ", ") + std::string(name);
  return bad_input("--format: expected a published format (" + known + "), found " + quoted_text(format));
}

}  // namespace trimtab
