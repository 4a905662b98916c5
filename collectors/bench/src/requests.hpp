#pragma once

// The file of benchmark requests (docs/protocols.md, "The benchmark command"), checked. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "json.hpp"
#include "repetition.hpp"

namespace trimtab::bench {

struct Requests {
  Precision precision;
  std::vector<Json> items;  // objects; their fields are read, and refused, one by one when they are measured
};

[[nodiscard]] Result<Requests> parse_requests(std::string_view text, std::string_view source);

// A field of an item. The error names the field and what was found.
[[nodiscard]] Result<std::int64_t> positive(const Json& item, std::string_view name);
[[nodiscard]] Result<std::int64_t> positive_or(const Json& item, std::string_view name, std::int64_t otherwise);
[[nodiscard]] Result<std::string> text(const Json& item, std::string_view name);
[[nodiscard]] Result<std::string> text_or(const Json& item, std::string_view name, std::string_view otherwise);

}  // namespace trimtab::bench
