#include <catch2/catch.hpp>
#include <string>

#include <nlohmann/json.hpp>

#include "../../golden_text.hpp"
#include "../documents/json_schema.hpp"
#include "document_schema.hpp"
#include "schema/api/card.hpp"
#include "schema/api/facts.hpp"

using namespace trimtab;
using namespace trimtab::api;
using nlohmann::json;

namespace {

Card full_card() {
  Card card;
  card.job = "gpt";
  card.step_ms = {123.4, 150};
  card.ranks = 4;
  card.steps = 80;
  card.samples_per_s = 518;
  card.tokens_per_s = 530'432;
  card.mfu = 0.41;
  card.peak_flops = 3.956e15;
  card.shares = {0.7, 0.15, 0, 0.1, 0, 0.05};
  card.recorded_by = "PyTorch Profiler";
  card.communication = {{"all_reduce", 0.15, 0.1}};
  card.memory = {30, 80, 50};
  card.devices = {{"NVIDIA H100 80GB HBM3", 4, {"GPUs are shared by MPS"}}};
  CardFinding finding;
  finding.name = FindingName::kSlowRank;
  finding.rank = 0;
  finding.gain = 0.12;
  finding.low = 0.1;
  finding.high = 0.14;
  finding.advice = "look at rank 0";
  finding.why = "it is slow";
  card.findings = {finding};
  card.notes = {"3 of 4 ranks tell steps"};
  return card;
}

}  // namespace

TEST_CASE("the card's schema is made from its one description") {
  const std::string made = test::DocumentSchema::text<Card>(
      "card", "verdict card", "Where a job's steps go, and what would make them shorter. Intervals are 95 %.");
  CHECK(test::golden_text(std::string(TRIMTAB_JSON_SCHEMAS) + "/card.schema.json", made) == made);
}

TEST_CASE("a full and an empty card are valid under it, and the same when they are read and written again") {
  const test::JsonSchema schema(TRIMTAB_JSON_SCHEMAS, "card");
  const Card full = full_card();
  CHECK(schema.violations(json::parse(to_json(full)), true) == std::vector<std::string>());
  CHECK(schema.violations(json::parse(to_json(Card{})), false) == std::vector<std::string>());
  const auto read = parse<Card>(to_json(full), "card.json");
  REQUIRE(read.ok());
  CHECK(to_json(*read) == to_json(full));
  CHECK(read->findings.at(0).rank == 0);
}

TEST_CASE("a card of another version, or without its findings' names, is refused") {
  json card = json::parse(to_json(full_card()));
  card["findings"][0].erase("name");
  CHECK(parse<Card>(card.dump(), "card.json").error().message == "card.json: $.findings[0].name: missing");
  card["schema"] = "trimtab.card/2";
  CHECK(parse<Card>(card.dump(), "card.json").error().message ==
        "card.json: $.schema: expected 'trimtab.card/1', but found 'trimtab.card/2'");
  CHECK(parse<Card>("{}", "card.json").error().message ==
        "card.json: $.schema: expected 'trimtab.card/1', but found ''");
}

TEST_CASE("a rank's facts may lack anything, and say unknown things") {
  const auto facts = parse<RankFacts>(
      R"({"type":"facts","framework":"ddp","later":1,"workers":0,"shapes":[{"kind":"linear","m":64,"n":8,"k":8,"count":2}],)"
      R"("links":[{"from":"10.0.0.1","to":"10.0.0.2","bytes":7,"busy_ns":9}]})");
  REQUIRE(facts.ok());
  CHECK(facts->workers == 0);
  CHECK(facts->shapes.at(0).count == 2);
  CHECK(facts->links.at(0).busy_ns == 9);
  CHECK(parse<RankFacts>("{}")->workers == -1);
  CHECK_FALSE(parse<RankFacts>(R"({"layers":-4})").ok());
}
