#include "settings/toml_nesting.hpp"

#include <catch2/catch.hpp>

#include "schema/job.hpp"

using namespace trimtab;

TEST_CASE("the parts of keys are counted, and dots in values, texts and comments are none") {
  CHECK(toml_keys_within("a.b = 1.5\n[c.d]\ne = { f.g = 1979-05-27T07:32:00.5Z, h.i = 2 }\n", 2));
  CHECK_FALSE(toml_keys_within("a.b.c = 1\n", 2));
  CHECK_FALSE(toml_keys_within("[ a . b . c ]\n", 2));
  CHECK_FALSE(toml_keys_within("x = { a.\"b\".c = 1 }", 2));
  CHECK(toml_keys_within("x = \"a.b.c.d\"  # e.f.g.h\ny = 'a.b.c'\n", 2));
  CHECK(toml_keys_within("x = \"\"\"\na.b.c\n\"d.e.f\"\n\"\"\"\ny = '''\na.b.c'''\n", 2));
  CHECK_FALSE(toml_keys_within("x = \"\\\"\"\na.b.c = 1\n", 2));
  CHECK_FALSE(toml_keys_within("x = \"open\na.b.c = 1\n", 2));  // the text ends with its line, and so does the parser
}

TEST_CASE("a job of a key without end does not exhaust the stack") {
  std::string key = "a";
  for (int i = 0; i < 200'000; ++i) key += ".a";
  for (const std::string& text : {key + " = 1\n", "[" + key + "]\n", "x = { " + key + " = 1 }\n"}) {
    const auto job = parse_job_toml(text, "job.toml", "/");
    REQUIRE_FALSE(job.ok());
    CHECK(job.error().message == "job.toml: a key of more than 8 parts");
  }
}
