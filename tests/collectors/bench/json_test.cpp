#include "json.hpp"

#include <catch2/catch.hpp>

using trimtab::bench::Json;
using trimtab::bench::json_string;

namespace {

std::string why(std::string_view text) {
  const auto parsed = Json::parse(text, "file");
  REQUIRE_FALSE(parsed.ok());
  return parsed.error().message;
}

}  // namespace

TEST_CASE("a JSON text becomes a tree", "[gpu_bench]") {
  const auto parsed = Json::parse(R"( {"a": [1, -2.5, "x\n\u00e9\ud83d\ude00", true, null], "b": {}} )", "file");
  REQUIRE(parsed.ok());
  const auto& elements = *parsed->at("a").array();
  REQUIRE(elements.size() == 5);
  CHECK(elements[0].integer() == 1);
  CHECK(elements[0].number() == 1.0);
  CHECK(elements[1].number() == -2.5);
  CHECK_FALSE(elements[1].integer().has_value());
  CHECK(*elements[2].text() == "x\n\xC3\xA9\xF0\x9F\x98\x80");
  CHECK(elements[3].text() == nullptr);
  CHECK_FALSE(elements[3].integer().has_value());
  CHECK(elements[4].null());
  CHECK(parsed->at("b").object()->empty());
  CHECK(parsed->at("nowhere").at("at all").null());
}

TEST_CASE("what is no JSON is refused with its place", "[gpu_bench]") {
  CHECK(why("") == "file: expected a value at byte 0");
  CHECK(why("{\"a\": 1,}") == "file: expected '\"' at byte 8");
  CHECK(why("[1 2]") == "file: expected ',' or ']' at byte 3");
  CHECK(why("1 2") == "file: expected the end of the text at byte 2");
  CHECK(why("\"\\ud800\"") == "file: expected an escape sequence at byte 7");
  CHECK(why("{\"a\": 1, \"a\": 2}") == "file: expected no member twice at byte 15");
  CHECK(why("\"never ends") == "file: expected '\"' at byte 11");
  CHECK_FALSE(Json::parse(std::string(100, '['), "deep").ok());
  CHECK_FALSE(Json::parse("1e999", "large").ok());
  CHECK_FALSE(Json::parse("99999999999999999999", "wide").value().integer().has_value());
}

TEST_CASE("any text becomes a JSON string", "[gpu_bench]") {
  CHECK(json_string("a\"b\\c\n") == "\"a\\\"b\\\\c\\u000a\"");
  CHECK(json_string("\xC3\xA9") == "\"\xC3\xA9\"");
  CHECK(json_string("\xFF\xC3") == "\"??\"");
  const auto back = Json::parse(json_string("tab\tand \"quote\""), "text");
  REQUIRE(back.ok());
  CHECK(*back->text() == "tab\tand \"quote\"");
}
