// What leaves a machine with `trimtab db export`: the program itself, and every byte that it writes.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "program.hpp"
#include "sample_costs.hpp"

using namespace trimtab;

namespace {

const std::string kJob = "orchid-rollout";
const std::string kNode = "griffin-host-7";
// Of an operator, a kernel, a range and a plan.
const std::vector<std::string> kNames{"wyvern-attention-h4096", "void basilisk_gemm<64, 128>", "chimera/forward \"x\"",
                                      "5eedfacecafebeef"};
constexpr CostKind kNamedKinds[] = {CostKind::kOperatorForward,
                                    CostKind::kOperatorBackward,
                                    CostKind::kOperatorStoredBytes,
                                    CostKind::kOperatorWorkingBytes,
                                    CostKind::kOperatorInputBytes,
                                    CostKind::kOperatorOutputBytes,
                                    CostKind::kOperatorParameterBytes,
                                    CostKind::kOperatorForwardReserveBytes,
                                    CostKind::kOptimizerStep,
                                    CostKind::kOperatorBackwardReserveBytes,
                                    CostKind::kStepTime,
                                    CostKind::kRange,
                                    CostKind::kKernel};

Cost cost_of(CostKind kind, const std::string& subject) {
  Cost cost;
  cost.key.kind = kind;
  cost.key.subject = subject;
  cost.key.dtype = "float32";
  for (const std::int64_t value : {100, 110, 120}) cost.statistics.add(value);
  return cost;
}

// A database that names somebody's work wherever it can, open in a process that has not closed it: parts are in its
// log.
struct NamedDatabase {
  NamedDatabase() {
    const Fingerprint fingerprint = test::sample_fingerprint();
    std::vector<Cost> costs{cost_of(CostKind::kCollective, "all_reduce")};
    for (const CostKind kind : kNamedKinds) {
      for (const std::string& name : kNames) costs.push_back(cost_of(kind, name));
    }
    CostBatch batch{{kNode + "/" + kJob, 1}, fingerprint, "passive", costs, kNode};
    REQUIRE(database.add_batches({&batch, 1}).ok());
    REQUIRE(database.put_fact(hash(fingerprint), "calibration/" + kJob, "{\"job\":\"" + kJob + "\"}").ok());
    REQUIRE(std::filesystem::file_size(path + "-wal") > 0);
  }
  [[nodiscard]] Outcome write(const std::string& format, bool with_names) const {
    std::vector<std::string> arguments{"db", "export", path, "--to", format, "--out", out()};
    if (with_names) arguments.emplace_back("--names");
    return ::trimtab_program(arguments);
  }
  [[nodiscard]] std::string out() const { return scratch.path("exported/costs"); }

  Scratch scratch;
  bool made = std::filesystem::create_directories(scratch.path("exported"));
  std::string path = scratch.path("costs.db");
  CostDatabase database = test::open_costs(path);
};

// All that stands in a directory, bytes and names of files.
std::string everything_in(const std::string& directory) {
  std::string bytes;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    bytes += entry.path().filename().string() + "\n" + content_of(entry.path().string());
  }
  return bytes;
}

bool has(const std::string& bytes, const std::string& text) {
  return bytes.find(text) != std::string::npos;
}

// Parts of the names, so that no quoting hides them.
const std::vector<std::string> kWords{"wyvern", "basilisk", "chimera", "5eedface", "orchid", "griffin"};

}  // namespace

TEST_CASE("an export of costs has no name of a job, a node, an operator, a kernel, a range or a plan in any byte") {
  const NamedDatabase named;
  for (const std::string& word : kWords) {
    INFO(word);
    CHECK(has(content_of(named.path) + content_of(named.path + "-wal"), word));
  }
  for (const std::string format : {"csv", "json"}) {
    const Outcome written = named.write(format, false);
    const Outcome printed = ::trimtab_program({"db", "export", named.path, "--to", format});
    INFO(format << written.err << printed.err);
    REQUIRE(written.exit_code == 0);
    REQUIRE(printed.exit_code == 0);
    const std::string bytes = everything_in(named.scratch.path("exported")) + written.out + written.err + printed.out;
    CHECK(has(bytes, "redacted-1"));
    CHECK(has(bytes, "all_reduce"));
    for (const std::string& word : kWords) {
      INFO(word);
      CHECK_FALSE(has(bytes, word));
    }
  }
}

TEST_CASE(
    "an export of costs that is asked for names has those of operators, kernels, ranges and plans, and no others") {
  const NamedDatabase named;
  for (const std::string format : {"csv", "json"}) {
    const Outcome written = named.write(format, true);
    INFO(format << written.err);
    REQUIRE(written.exit_code == 0);
    const std::string bytes = everything_in(named.scratch.path("exported"));
    for (const char* word :
         {"wyvern-attention-h4096", "void basilisk_gemm<64, 128>", "chimera/forward", "5eedfacecafebeef"}) {
      INFO(word);
      CHECK(has(bytes, word));
    }
    CHECK_FALSE(has(bytes, "redacted"));
    CHECK_FALSE(has(bytes, kJob));
    CHECK_FALSE(has(bytes, kNode));
  }
}
