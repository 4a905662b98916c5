#include <catch2/catch.hpp>

#include "schema/job.hpp"
#include "schema/settings/settings.hpp"

using namespace trimtab;

namespace {

// With six parts in front of each "a", of which a key may have two more.
bool within(std::string toml) {
  for (std::size_t at = toml.find("a."); at != std::string::npos; at = toml.find("a.", at + 14)) {
    toml.insert(at, "p.q.r.s.t.u.");
  }
  const auto read = read_toml(toml, "x");
  return read.ok() || read.error().message != "x: a key of more than 8 parts";
}

}  // namespace

TEST_CASE("the parts of keys are counted, and dots in values, texts and comments are none") {
  CHECK(within("a.b = 1.5\n[c.d]\ne = { f.g = 1979-05-27T07:32:00.5Z, h.i = 2 }\n"));
  CHECK_FALSE(within("a.b.c = 1\n"));
  CHECK_FALSE(within("[ a.b . c ]\n"));
  CHECK_FALSE(within("x = { a.\"b\".c = 1 }"));
  CHECK(within("x = \"a.b.c.d\"  # e.f.g.h\ny = 'a.b.c'\n"));
  CHECK(within("x = \"\"\"\na.b.c\n\"d.e.f\"\n\"\"\"\ny = '''\na.b.c'''\n"));
  CHECK_FALSE(within("x = \"\\\"\"\na.b.c = 1\n"));
  CHECK_FALSE(within("x = \"open\na.b.c = 1\n"));  // the text ends with its line, and so does the parser
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
