#include "schema/sharing/contributed_source.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using Catch::Contains;

namespace {

std::string contributed(const std::string& source) {
  const auto made = contributed_source(parse_cost_source(source), "ana");
  return made.ok() ? to_text(*made) : made.error().message;
}

}  // namespace

TEST_CASE("a contributed source is an import that names the contributor and keeps the conditions") {
  CHECK(contributed("benchmark host-clock") == "import:contributor/ana/benchmark");
  CHECK(contributed("benchmark disturbed") == "import:contributor/ana/benchmark disturbed");
  CHECK(contributed("training alone device-clock") == "import:contributor/ana/training alone device-clock");
  CHECK(contributed("training host-clock waiting") == "import:contributor/ana/training host-clock waiting");
  CHECK(contributed("import:microsoft/SuperScaler@53d0036") == "import:contributor/ana/microsoft/SuperScaler@53d0036");
  CHECK(contributed("import:a name of words") == "import:contributor/ana/a_name_of_words");
  for (const char* source : {"benchmark", "training alone ranks-clock", "import:x alone ranks-clock"}) {
    INFO(source);
    const CostSource made = contributed_source(parse_cost_source(source), "ana").value();
    CHECK(parse_cost_source(to_text(made)) == made);
    CHECK(contributor_of(made) == "ana");
  }
  CHECK(describe(parse_cost_source("import:contributor/ana/training alone device-clock")) ==
        "contributed by ana (training), alone, device's clock");
  CHECK(contributor_of(parse_cost_source("import:contributed")) == std::nullopt);
  CHECK(contributor_of(parse_cost_source("benchmark")) == std::nullopt);
}

TEST_CASE("what is no measurement of the contributor's own is not contributed, and the message says why") {
  CHECK_THAT(contributed("import:contributor/bob/benchmark"), Contains("they are contributor \"bob\"'s"));
  CHECK_THAT(contributed("import:contributor/ana/benchmark"), Contains("who measured costs contributes them"));
  CHECK_THAT(contributed("estimated"), Contains("estimates"));
  CHECK_THAT(contributed("taken-over:0123456789abcdef"), Contains("taken over"));
  CHECK_THAT(contributed("passive"), Contains("did not store under which condition"));
  CHECK_THAT(contributed("of next year"), Contains("does not know their source"));
  CHECK_THAT(contributed("import:" + std::string(100'000, 'x')), Contains("at most 256"));
  CHECK(contributed("import:" + std::string(100'000, 'x')).size() < 200);
}

TEST_CASE("keys of a single job are of no use to others") {
  CostKey key;
  for (const CostKind kind : {CostKind::kRange, CostKind::kKernel, CostKind::kStepTime}) {
    key.kind = kind;
    CHECK_FALSE(why_not_contributed(key).empty());
  }
  key.kind = CostKind::kOverlapComputation;
  CHECK(why_not_contributed(key).empty());
  key.kernel_class = "gemm";
  CHECK_FALSE(why_not_contributed(key).empty());
  key = {};
  key.kind = CostKind::kCollective;
  key.algorithm = "ring";
  CHECK(why_not_contributed(key).empty());
}

TEST_CASE("a contributor's name is a word") {
  for (const char* name : {"ana", "a.b_c@d-1"}) CHECK(check_contributor(name).ok());
  for (const char* name : {"", "a/b", "a b", "a\nb"}) CHECK_FALSE(check_contributor(name).ok());
  CHECK_FALSE(check_contributor(std::string(65, 'x')).ok());
}
