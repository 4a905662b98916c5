#include <array>

#include "api/document_reader.hpp"
#include "api/document_writer.hpp"
#include "schema/api/costs.hpp"
#include "schema/api/history.hpp"
#include "schema/api/live.hpp"
#include "schema/api/trace.hpp"

namespace trimtab::api {

std::span<const std::string_view> words_of(TraceState) {
  static constexpr std::array<std::string_view, 2> kStates = {"running", "done"};
  return kStates;
}

template std::string to_json(const TraceRequest& document);
template std::string to_json(const TraceRemarks& document);
template std::string to_json(const Costs& document);
template std::string to_json(const Fingerprints& document);
template std::string to_json(const LiveJob& document);
template Result<LiveJob> parse(std::string_view json, std::string_view source);
template std::string to_json(const Events& document);
template Result<Events> parse(std::string_view json, std::string_view source);
template std::string to_json(const Audit& document);
template Result<Audit> parse(std::string_view json, std::string_view source);
template std::string to_json(const Trace& document);
template Result<Trace> parse(std::string_view json, std::string_view source);

}  // namespace trimtab::api
