#pragma once

// How a document of the coordinator's HTTP API, or report.json, is described. Each is a struct whose static
// fields(visit) names every member once:
//
//   visit(name, &Struct::member, Presence, doc)            or with a Sign as the fifth argument
//
// The writer, the reader and the JSON Schema all come from that (src/api/). Members are texts, numbers, flags, Word,
// Carried, such structs, and optionals, vectors and pairs of them. Plain values; nothing here keeps state.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.hpp"

namespace trimtab::api {

enum class Presence {
  kNeeded,  // a document without it is refused
  kAlways,  // every release writes it; who reads does without
  kUsual,   // written, null where there is nothing; documents of earlier releases may lack it
  kIfAny,   // left out where there is nothing: an empty text or list, a number of 0
};

// What a number may be. Integers are checked when they are read.
enum class Sign { kNotNegative, kAny };

// A document inside another, as its JSON text. Empty: null. What is no JSON is written as a text.
struct Carried {
  std::string json;
};
struct CarriedPlan : Carried {};     // schema/plan.hpp
struct CarriedCluster : Carried {};  // schema/cluster.hpp

// A word of an enumeration that has to_string() and words_of(). A later release may write one that this one does not
// know: it is kept, shown, and equal to none.
template <typename Enum>
class Word {
 public:
  Word() = default;
  Word(Enum value) : text_(to_string(value)) {}  // implicit: it is the same thing
  explicit Word(std::string_view text) : text_(text) {}

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool operator==(Enum value) const { return text_ == to_string(value); }

 private:
  std::string text_;
};

// What a member is called in its document, for who takes a request apart to answer what is wrong with it.
template <typename Document, typename Member>
[[nodiscard]] constexpr std::string_view name_of(Member Document::*wanted) {
  std::string_view found;
  Document::fields([&](std::string_view name, auto member, const auto&...) {
    if constexpr (std::is_same_v<decltype(member), Member Document::*>) {
      if (member == wanted) found = name;
    }
  });
  return found;
}

// Both are there for the documents that name themselves one, and no other: a linker finds a mistake.

// In one line, members sorted by name. Numbers that are none become null, bytes that are not UTF-8 become U+FFFD.
template <typename Document>
[[nodiscard]] std::string to_json(const Document& document);

// Unknown members are tolerated; missing ones and null keep their defaults, but for those that are needed. The error
// (kBadInput) names the JSON path after `source`: "report.json: $.trials[1].state: expected a text, but found number".
template <typename Document>
[[nodiscard]] Result<Document> parse(std::string_view json, std::string_view source = "");

}  // namespace trimtab::api
