#include "base/utf8.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

TEST_CASE("a text is cut between characters, at its end or at its beginning") {
  CHECK(first_of("abc", 3) == "abc");
  CHECK(first_of("abcd", 3) == "abc");
  CHECK(first_of("a\xe2\x82\xac", 3) == "a");
  CHECK(last_of("\xe2\x82\xac"
                "a",
                3) == "a");
  CHECK(last_of("abcd", 3) == "bcd");
  CHECK(first_of("\xe2\x82\xac", 2).empty());
}
