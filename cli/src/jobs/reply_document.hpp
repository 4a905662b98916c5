#pragma once

// A coordinator's answer as a document of schema/api. It comes from a network: whatever it is, the one who reads it
// gets an error that can be shown. Pure.

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "schema/api/fields.hpp"

namespace trimtab::cli {

[[nodiscard]] Error not_understood(const std::string& why);

// Fails (kUnavailable) on what is no such document. Missing members keep their defaults: an older coordinator is no
// error.
template <typename Document>
[[nodiscard]] Result<Document> read_reply(std::string_view body) {
  auto document = api::parse<Document>(body);
  if (!document.ok()) return not_understood(document.error().message);
  return document;
}

}  // namespace trimtab::cli
