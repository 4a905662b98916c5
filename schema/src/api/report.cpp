#include "schema/api/report.hpp"

#include <array>

#include "api/document_reader.hpp"
#include "api/document_writer.hpp"

namespace trimtab::api {

std::span<const std::string_view> words_of(ReportVersion) {
  static constexpr std::array<std::string_view, 1> kVersions = {"trimtab.report/1"};
  return kVersions;
}

template <>
std::string to_json(const Report& report) {
  return written(report).dump(2, ' ', false, Json::error_handler_t::replace);
}

template <>
Result<Report> parse(std::string_view json, std::string_view source) {
  const std::string prefix = std::string(source) + ": ";
  const auto tree = parse_tree(json);
  if (!tree.ok()) return bad_input(prefix + tree.error().message);
  if (!tree->is_object()) return bad_input(prefix + "expected a report (a JSON object)");
  Report report;
  DocumentReader reader;
  reader.read_root(*tree, report);
  const std::string& version = report.schema.text();
  if (report.schema == ReportVersion::k1 && !reader.failed()) return report;
  if (report.schema == ReportVersion::k1 || (version.empty() && reader.failed())) {
    return bad_input(prefix + reader.failure());
  }
  return bad_input(prefix + "$.schema: expected '" + std::string(to_string(ReportVersion::k1)) + "', but found '" +
                   version + "'");
}

template Result<Timelines> parse(std::string_view json, std::string_view source);

}  // namespace trimtab::api
