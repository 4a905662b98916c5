#include "schema/json_nesting.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

TEST_CASE("levels are counted, and brackets in texts are none") {
  CHECK(json_nested_within("", 0));
  CHECK(json_nested_within("7", 0));
  CHECK_FALSE(json_nested_within("[]", 0));
  CHECK(json_nested_within("[{}, [], {}]", 2));
  CHECK_FALSE(json_nested_within("[{}, [[]]]", 2));
  CHECK(json_nested_within(R"({"[[[": "{{{ \" [[["})", 1));
  CHECK_FALSE(json_nested_within(R"({"a\\": [[]]})", 2));
  CHECK(json_nested_within(R"(["\\", []])", 2));
}

TEST_CASE("what is no JSON does not hide levels") {
  CHECK_FALSE(json_nested_within("]]]][[[", 2));
  CHECK(json_nested_within("\"[[[", 0));
  CHECK(json_nested_within("\"\\", 0));
}

TEST_CASE("the limit that documents have is the usual one") {
  CHECK(json_nested_within(std::string(kMaxJsonLevels, '[')));
  CHECK_FALSE(json_nested_within(std::string(kMaxJsonLevels + 1, '{')));
}

TEST_CASE("two fields of one name in one object are found, and named") {
  CHECK_FALSE(repeated_json_field(R"({"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]})"));
  CHECK_FALSE(repeated_json_field("no JSON"));
  CHECK_FALSE(repeated_json_field(""));
  for (const std::string text : {R"({"mode": 1, "x": 2, "mode": 3})", R"([{"x": [{"mode": 1, "mode": 1}]}])",
                                 R"({"mode": 1, "\u006dode": 2})"}) {
    const auto refusal = repeated_json_field(text);
    REQUIRE(refusal);
    CHECK(*refusal == "the field \"mode\" occurs twice in one object; remove one of them");
  }
  CHECK_FALSE(repeated_json_field(std::string(100'000, '{')));
}
