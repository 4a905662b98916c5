#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <optional>

#include "../sample_costs.hpp"
#include "schema/published.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

const std::string kHeader =
    "hidden_size,tp_degree,micro_batch,valid,attn_fwd_ms,attn_bwd_ms,mlp_fwd_ms,mlp_bwd_ms,allreduce_ms,"
    "runtime_peak_increase_mib\n";
const std::string kRows =
    "1024,1,1,1,1.39632,2.11857,0.850374,1.56773,1.38901,106.03\n"
    "1024,2,1,1,1.00632,1.30198,0.549494,0.92191,1.43441,48.02\n"
    "1024,2,2,0,,,,,,\n"
    "4096,4,2,1,3.1,4.2,2.3,3.4,5.5,64\n";

class ProfileFile {
 public:
  explicit ProfileFile(const std::string& text) { std::ofstream(directory_.file("profile_3090.csv")) << text; }
  [[nodiscard]] Result<Published> read() const { return read_published("oases", {directory_.path()}); }

 private:
  TemporaryDirectory directory_;
};

std::optional<double> mean_of(const PublishedCosts& costs, const CostKey& key) {
  for (const Cost& cost : costs.costs) {
    if (cost.key == canonical(key)) return cost.statistics.mean();
  }
  return std::nullopt;
}

CostKey operator_key(CostKind kind, const char* op, std::int32_t tp) {
  return {kind, std::string("oases-h1024/") + op, "float32", 1, tp, "default", 0, 0, ""};
}

}  // namespace

TEST_CASE("Oases' rows become costs without loss: collectives apart, and in operators at tp > 1") {
  const auto read = ProfileFile(kHeader + kRows).read();
  REQUIRE(read.ok());
  const Published& published = read.value();
  REQUIRE(published.costs.size() == 2);
  const PublishedCosts& small = published.costs.front();
  CHECK(small.fingerprint.environment.at("profile") == "h1024");
  CHECK(small.costs.size() == 18);
  CHECK(mean_of(small, operator_key(CostKind::kOperatorForward, "attention", 1)) == 1396320);
  CHECK(mean_of(small, operator_key(CostKind::kOperatorForward, "attention", 2)) == 1006320 + 1434410);
  CHECK(mean_of(small, operator_key(CostKind::kOperatorBackward, "mlp", 2)) == 921910 + 1434410);
  CHECK(mean_of(small, operator_key(CostKind::kOperatorWorkingBytes, "mlp", 1)) == std::llround(106.03 * 1048576));
  CHECK(mean_of(small, operator_key(CostKind::kOperatorParameterBytes, "attention", 2)) ==
        4 * (4 * 1024 * 1024 / 2 + 6 * 1024));
  CHECK(mean_of(small, {CostKind::kCollective, "all_reduce", "float32", 0, 1, "default", 4194304, 2, "intra_node"}) ==
        1434410);
  CHECK(hash(small.fingerprint) != hash(published.costs.back().fingerprint));
}

TEST_CASE("settings whose hidden size was profiled become documents, the others a remark") {
  const auto read = ProfileFile(kHeader + kRows).read();
  REQUIRE(read.ok());
  const Published& published = read.value();
  REQUIRE(published.models.size() == 2);
  CHECK(published.models[1].file == "oases-llama-7B.json");
  const Model& model = published.models[1].model;
  CHECK(model.operators.size() == 32);
  CHECK(model.global_batch == 32);
  CHECK(parse_model(to_json(model), "model").ok());
  REQUIRE(published.clusters.size() == 6);
  const Cluster& cluster = published.clusters.back().cluster;
  CHECK(cluster.devices() == 32);
  CHECK(cluster.nodes.front().memory_bytes == 24174811545);
  CHECK(cluster.nodes.front().fingerprint == hash(published.costs.back().fingerprint));
  CHECK(parse_cluster(to_json(cluster), "cluster").ok());
  REQUIRE(published.remarks.size() == 6);
  CHECK_THAT(published.remarks[0], Catch::Contains("bert-1_3B") && Catch::Contains("2048"));
}

TEST_CASE("a malformed row of Oases' profile is refused by file, line, column and what was expected") {
  struct Damage {
    std::string text;
    std::vector<std::string> words;
  };
  const std::vector<Damage> damages{
      {kHeader + "1024,1,1,1,x,1,1,1,1,1\n", {"profile_3090.csv:2: attn_fwd_ms", "number", "\"x\""}},
      {kHeader + "1024,1,1,1,0,1,1,1,1,1\n", {"profile_3090.csv:2: attn_fwd_ms", "\"0\""}},
      {kHeader + "1024,1,1,1,1,1,1,1,-1,1\n", {"profile_3090.csv:2: allreduce_ms", "-1"}},
      {kHeader + "1024,1,1,1,1,1,1,1,1,nan\n", {"profile_3090.csv:2: runtime_peak_increase_mib", "nan"}},
      {kHeader + "1024,1,1,1,1,1,1,1,1,\n", {"profile_3090.csv:2: runtime_peak_increase_mib", "nothing"}},
      {kHeader + "1024,0,1,1,1,1,1,1,1,1\n", {"profile_3090.csv:2: tp_degree"}},
      {kHeader + "1024,1,1,2,1,1,1,1,1,1\n", {"profile_3090.csv:2: valid", "0, 1"}},
      {kHeader + "1024,1,1,0,1,1,1,1,1,1\n", {"profile_3090.csv:2: attn_fwd_ms", "nothing in a row"}},
      {kHeader + kRows + "1024,1,1,1,1,1,1,1,1,1\n", {"profile_3090.csv:6", "line 2"}},
      {kHeader + "1024,1,1,1,1,1,1,1,1\n", {"profile_3090.csv:2", "10 cells", "found 9"}},
      {kHeader + "1024,1,1,0,,,,,,\n", {"profile_3090.csv", "valid = 1"}},
      {kHeader, {"profile_3090.csv:2", "end of the file"}},
      {"hidden_size,tp\n1,2\n", {"profile_3090.csv:1", "tp_degree"}},
  };
  for (const Damage& damage : damages) {
    INFO(damage.text);
    const auto read = ProfileFile(damage.text).read();
    REQUIRE_FALSE(read.ok());
    for (const std::string& word : damage.words) CHECK_THAT(read.error().message, Catch::Contains(word));
  }
  const auto several = read_published("oases", {"a", "b"});
  REQUIRE_FALSE(several.ok());
  CHECK_THAT(several.error().message, Catch::Contains("one directory"));
}
