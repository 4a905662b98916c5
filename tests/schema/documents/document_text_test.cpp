#include "schema/documents/document_text.hpp"

#include <catch2/catch.hpp>

#include "sample_documents.hpp"

using namespace trimtab;
using namespace trimtab::test;

TEST_CASE("a text is kept as it came, beside what it says, and copies share that") {
  const std::string text = sample(DocumentKind::kPlan);
  const DocumentText<Plan> plan(text);
  REQUIRE(plan.said() != nullptr);
  CHECK(*plan.said() == parse_plan(text, "").value());
  CHECK(plan.json == text);
  CHECK(plan.needed("the incumbent").ok());
  const DocumentText<Plan> copy = plan;
  CHECK(copy.said() == plan.said());

  CHECK(DocumentText<Cluster>(sample(DocumentKind::kCluster)).said() != nullptr);
}

TEST_CASE("what is wrong with a text names where it came from, and what it was to be") {
  const std::string wrong = R"({"schema": "trimtab.plan/1"})";
  const DocumentText<Plan> named(wrong, "plan.json");
  CHECK(named.said() == nullptr);
  CHECK(named.read().error().message == parse_plan(wrong, "plan.json").error().message);
  const DocumentText<Plan> unnamed(wrong);
  CHECK(unnamed.needed("the incumbent").error().message == "the incumbent: " + parse_plan(wrong, "").error().message);
  CHECK(DocumentText<Plan>(sample(DocumentKind::kCluster)).said() == nullptr);
}

TEST_CASE("no text says nothing") {
  const DocumentText<Plan> none;
  CHECK(none.empty());
  CHECK(none.said() == nullptr);
  CHECK(none.needed("the incumbent").error().message == "the incumbent: there is none");
  CHECK(DocumentText<Plan>("").needed("the incumbent").error().message == "the incumbent: there is none");
  CHECK_FALSE(DocumentText<Plan>("", "plan.json").read().ok());
}
