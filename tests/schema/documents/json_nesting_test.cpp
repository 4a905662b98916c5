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
