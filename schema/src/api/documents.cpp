// The documents of the API and of report.json, and what they are read and written with.

#include <array>

#include "api/document.hpp"
#include "schema/api/card.hpp"
#include "schema/api/costs.hpp"
#include "schema/api/facts.hpp"
#include "schema/api/history.hpp"
#include "schema/api/live.hpp"
#include "schema/api/report.hpp"
#include "schema/api/status.hpp"
#include "schema/api/submission.hpp"
#include "schema/api/trace.hpp"
#include "schema/json_nesting.hpp"

namespace trimtab::api {

std::string Place::path() const {
  if (within == nullptr) return "$";
  return within->path() + (name.empty() ? "[" + std::to_string(index) + "]" : "." + std::string(name));
}

void DocumentReader::fail(const Place& place, const std::string& message) {
  if (!failure_) failure_ = place.path() + ": " + message;
}

bool DocumentReader::is(bool holds, const Json& json, const Place& place, const char* expected) {
  if (!holds) fail(place, std::string("expected ") + expected + ", but found " + json.type_name());
  return holds;
}

Result<Json> parse_tree(std::string_view text) {
  if (!json_nested_within(text)) return bad_input(json_nesting_refusal());
  Json tree = Json::parse(text, nullptr, false);
  if (tree.is_discarded()) return bad_input("no JSON");
  return tree;
}

std::span<const std::string_view> words_of(TraceState) {
  static constexpr std::array<std::string_view, 2> kStates = {"running", "done"};
  return kStates;
}

std::span<const std::string_view> words_of(GainBy) {
  static constexpr std::array<std::string_view, 3> kWays = {"comparison", "trials", "trial not kept"};
  return kWays;
}

std::span<const std::string_view> words_of(ReportVersion) {
  static constexpr std::array<std::string_view, 1> kVersions = {"trimtab.report/1"};
  return kVersions;
}

std::span<const std::string_view> words_of(CardVersion) {
  static constexpr std::array<std::string_view, 1> kVersions = {"trimtab.card/1"};
  return kVersions;
}

std::span<const std::string_view> words_of(FindingName) {
  static constexpr std::array<std::string_view, 9> kNames = {"slow_rank",
                                                             "slow_data",
                                                             "small_microbatch",
                                                             "slow_link",
                                                             "everything_recomputed",
                                                             "launch_bound",
                                                             "exposed_communication",
                                                             "memory_left",
                                                             "healthy"};
  return kNames;
}

namespace {

// Indented, for people.
template <typename Document>
std::string indented(const Document& document) {
  return written(document).dump(2, ' ', false, Json::error_handler_t::replace);
}

// A document whose `schema` says its version: another one is refused. `what`: "a report".
template <typename Document, typename Version>
Result<Document> parse_version(std::string_view json, std::string_view source, Version expected, const char* what) {
  const std::string prefix = std::string(source) + ": ";
  const auto tree = parse_tree(json);
  if (!tree.ok()) return bad_input(prefix + tree.error().message);
  if (!tree->is_object()) return bad_input(prefix + "expected " + what + " (a JSON object)");
  Document document;
  document.schema = {};
  DocumentReader reader;
  reader.read_root(*tree, document);
  const std::string& version = document.schema.text();
  if (document.schema == expected && !reader.failed()) return document;
  if (document.schema == expected || (version.empty() && reader.failed())) return bad_input(prefix + reader.failure());
  return bad_input(prefix + "$.schema: expected '" + std::string(to_string(expected)) + "', but found '" + version +
                   "'");
}

}  // namespace

template <>
std::string to_json(const Report& report) {
  return indented(report);
}

template <>
Result<Report> parse(std::string_view json, std::string_view source) {
  return parse_version<Report>(json, source, ReportVersion::k1, "a report");
}

template <>
std::string to_json(const Card& card) {
  return indented(card);
}

template <>
Result<Card> parse(std::string_view json, std::string_view source) {
  return parse_version<Card>(json, source, CardVersion::k1, "a card");
}

template std::string to_json(const RankFacts& document);
template Result<RankFacts> parse(std::string_view json, std::string_view source);
template std::string to_json(const Submission& document);
template std::string to_json(const Trials& document);
template Result<Trials> parse(std::string_view json, std::string_view source);
template std::string to_json(const Job& document);
template Result<Job> parse(std::string_view json, std::string_view source);
template std::string to_json(const Jobs& document);
template Result<Jobs> parse(std::string_view json, std::string_view source);
template std::string to_json(const ClusterStatus& document);
template Result<ClusterStatus> parse(std::string_view json, std::string_view source);
template std::string to_json(const Nodes& document);
template Result<Nodes> parse(std::string_view json, std::string_view source);
template std::string to_json(const Refusal& document);
template Result<Refusal> parse(std::string_view json, std::string_view source);
template std::string to_json(const TraceRequest& document);
template std::string to_json(const TraceRemarks& document);
template std::string to_json(const Costs& document);
template std::string to_json(const Fingerprints& document);
template std::string to_json(const CostPages& document);
template Result<CostPages> parse(std::string_view json, std::string_view source);
template std::string to_json(const CostPush& document);
template Result<CostPush> parse(std::string_view json, std::string_view source);
template std::string to_json(const PushAnswer& document);
template Result<PushAnswer> parse(std::string_view json, std::string_view source);
template std::string to_json(const CostRemoval& document);
template Result<CostRemoval> parse(std::string_view json, std::string_view source);
template std::string to_json(const RemovalAnswer& document);
template Result<RemovalAnswer> parse(std::string_view json, std::string_view source);
template std::string to_json(const LiveJob& document);
template Result<LiveJob> parse(std::string_view json, std::string_view source);
template std::string to_json(const Events& document);
template Result<Events> parse(std::string_view json, std::string_view source);
template std::string to_json(const Audit& document);
template Result<Audit> parse(std::string_view json, std::string_view source);
template std::string to_json(const Trace& document);
template Result<Trace> parse(std::string_view json, std::string_view source);
template std::string to_json(const Timelines& document);
template Result<Timelines> parse(std::string_view json, std::string_view source);
template std::string to_json(const TakenOver& document);
template Result<TakenOver> parse(std::string_view json, std::string_view source);

}  // namespace trimtab::api
