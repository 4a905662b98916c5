#include <catch2/catch.hpp>

#include "schema/printed_model.hpp"

using namespace trimtab;
using Catch::Contains;

namespace {

const std::string kDocument = R"({"schema": "trimtab.model/1", "name": "a {brace} \" in a text", "operators": [{}]})";

std::string refusal(const std::string& output) {
  const auto printed = printed_model(output);
  REQUIRE_FALSE(printed.ok());
  return printed.error().message;
}

}  // namespace

TEST_CASE("a model document is found in what a program prints around it") {
  for (const std::string before : {"", "number of parameters: 10.65M\n", "loading {'lr': 0.1} ... {\n{{{ {\"open\n",
                                   "{\"step\": 1, \"schema\": \"other/1\"}\n", "no newline ", "\xff\xfe{"}) {
    for (const std::string after : {"", "\n", "\nusing fused AdamW: {True}\n", "{\"model\": {\"schema\": \"x\"}}"}) {
      const auto printed = printed_model(before + kDocument + after);
      INFO(before << "|" << after);
      REQUIRE(printed.ok());
      CHECK(*printed == kDocument);
    }
  }
}

TEST_CASE("what a program prints must hold a model document, and one") {
  CHECK_THAT(refusal(""), Contains("printed no model.json") && Contains("nothing was printed"));
  CHECK_THAT(refusal("Traceback: {x}\n"), Contains("printed no model.json") && Contains("Traceback"));
  CHECK_THAT(refusal("[" + kDocument.substr(0, 40)), Contains("printed no model.json"));
  CHECK_THAT(refusal(R"({"config": {"schema": "trimtab.model/1"}})"), Contains("printed no model.json"));
  CHECK_THAT(refusal(kDocument + "\n" + kDocument), Contains("more than one"));
}

TEST_CASE("a long output that is no document is read in one pass") {
  std::string braces;
  for (int i = 0; i < 100'000; ++i) braces += "{\"a\":";
  CHECK_THAT(refusal(braces), Contains("printed no model.json"));
}
