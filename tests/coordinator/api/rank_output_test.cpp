#include "api/rank_output.hpp"

#include <catch2/catch.hpp>
#include <string>

using trimtab::coordinator::without_rank_output;

namespace {

const std::string kInstead = "(told to those who have the role operate)";

std::string audit_that_says(const std::string& output) {
  return R"x({"entries":[{"who":"coordinator","why":"the benchmark failed: exit code 1; its last output: )x" + output +
         R"x(","at_ns":5},{"why":"1.2 times"}]})x";
}

std::string events_that_say(const std::string& output) {
  return R"x({"events":[{"kind":"output","text":"the last lines of rank 3:)x" + output + R"x("}]})x";
}

}  // namespace

TEST_CASE("what ranks and commands printed is left out of documents for those who may not operate") {
  CHECK(without_rank_output(audit_that_says(R"x(KEY=s3cret\nline)x")) == audit_that_says(kInstead));
  CHECK(without_rank_output(events_that_say(R"x(\ns3cret)x")) == events_that_say(" " + kInstead));
  CHECK(without_rank_output(R"x({"failure":"printed no model.json; the output begins with 's3cret'"})x") ==
        R"x({"failure":"printed no model.json; the output begins with )x" + kInstead + R"x("})x");
}

TEST_CASE("other documents stay as they are, byte for byte") {
  const std::string plain = R"x({"b": 1.50, "a":[ "its last output" ]})x";
  CHECK(without_rank_output(plain) == plain);
  CHECK(without_rank_output("no JSON; its last output: x") == "no JSON; its last output: x");
}
