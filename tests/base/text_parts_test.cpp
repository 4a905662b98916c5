#include "base/text_parts.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using Words = std::vector<std::string_view>;

TEST_CASE("lines are taken off a text one by one, whatever ends them") {
  std::string_view text = "one\ntwo\r\n\nlast";
  CHECK(take_line(text) == "one");
  CHECK(take_line(text) == "two");
  CHECK(take_line(text).empty());
  CHECK(take_line(text) == "last");
  CHECK(text.empty());
}

TEST_CASE("blanks part words, also at the ends of a text") {
  CHECK(blank_parted("").empty());
  CHECK(blank_parted(" \t\r\n").empty());
  CHECK(blank_parted("  a b\tc\r\nd ") == Words{"a", "b", "c", "d"});
}

TEST_CASE("separators part a text, and empty parts stay") {
  CHECK(parted("") == Words{""});
  CHECK(parted("a,b") == Words{"a", "b"});
  CHECK(parted(",a,,b,") == Words{"", "a", "", "b", ""});
  CHECK(parted("a:b,c", ':') == Words{"a", "b,c"});
}

TEST_CASE("blanks and ends of lines are taken off a text's ends alone") {
  CHECK(trimmed("").empty());
  CHECK(trimmed(" \t\r\n").empty());
  CHECK(trimmed("\n a b\t\r\n") == "a b");
}
