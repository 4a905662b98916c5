#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../schema/published/aceso_folder.hpp"
#include "../schema/published/galvatron_folder.hpp"
#include "../schema/published/published_files.hpp"
#include "program.hpp"

using nlohmann::json;
using trimtab::test::PublishedFiles;

namespace {

Outcome import_into(const PublishedFiles& files, const std::string& database, const std::string& documents) {
  return ::trimtab_program(
      {"db", "import", "--format", "aceso", files.path(), database, "--documents", documents, "--json"});
}

}  // namespace

TEST_CASE("an import fills the cost database and writes the documents, once") {
  const PublishedFiles files;
  const Scratch scratch;
  const std::string database = scratch.path("costs.db");
  const Outcome first = import_into(files, database, scratch.path("documents"));
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  const json answer = json::parse(first.out);
  CHECK(answer["new_profiles"] == 3);
  CHECK(answer["documents"].size() == 5);
  for (const auto& path : answer["documents"]) CHECK(std::filesystem::exists(path.get<std::string>()));
  const json model = json::parse(content_of(scratch.path("documents/gpt-tiny.json")));
  CHECK(model["operators"].size() == 8);

  const std::string before = ::trimtab_program({"db", "export", database}).out;
  const json again = json::parse(import_into(files, database, scratch.path("documents")).out);
  CHECK(again["new_profiles"] == 0);
  CHECK(::trimtab_program({"db", "export", database}).out == before);
  CHECK(before.find("import:microsoft/SuperScaler@53d0036") != std::string::npos);

  const Outcome shown = ::trimtab_program({"db", "show", database});
  CHECK(shown.exit_code == 0);
  CHECK(shown.out.find("https://github.com/microsoft/SuperScaler") != std::string::npos);
  CHECK(shown.out.find("operator_backward_reserve_bytes") != std::string::npos);
}

TEST_CASE("a folder of Aceso's profiler is imported; what it does not say is asked for and said") {
  const trimtab::test::AcesoFolder folder;
  const Scratch scratch;
  const std::string database = scratch.path("costs.db");
  std::vector<std::string> command{"db",          "import", "--format",    "aceso",
                                   folder.path(), database, "--documents", scratch.path("documents")};
  const Outcome asked = ::trimtab_program(command);
  INFO(asked.err);
  REQUIRE(asked.exit_code == 0);
  CHECK(asked.out.find("profiled-time-mine") != std::string::npos);
  CHECK(asked.err.find("remark: no cluster documents of gpt-1_3B") != std::string::npos);
  CHECK(std::filesystem::exists(scratch.path("documents/gpt-1_3B.json")));
  command.insert(command.end(), {"--devices-per-node", "4", "--device-memory", "27.5", "--json"});
  const Outcome said = ::trimtab_program(command);
  INFO(said.err);
  REQUIRE(said.exit_code == 0);
  CHECK(json::parse(said.out)["new_profiles"] == 0);
  const json cluster = json::parse(content_of(scratch.path("documents/gpt-1_3B.cluster.json")));
  CHECK(cluster["nodes"][0]["devices"] == 4);
  command.insert(command.end(), {"--layers", "many"});
  const Outcome wrong = ::trimtab_program(command);
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.err.find("--layers") != std::string::npos);
}

TEST_CASE("a profile that an author's rules add to is one new profile") {
  const trimtab::test::GalvatronFolder folder;
  const Scratch scratch;
  const std::vector<std::string> import{"db",        "import",      "--format",
                                        "galvatron", folder.path(), scratch.path("costs.db")};
  const Outcome first = ::trimtab_program(import);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  CHECK(first.out.find(": 1 profile (1 new) with ") != std::string::npos);
  CHECK(::trimtab_program({"db", "export", scratch.path("costs.db")}).out.find(",estimated,") != std::string::npos);
  CHECK(::trimtab_program(import).out.find(": 1 profile (0 new) with ") != std::string::npos);
}

TEST_CASE("databases that imported the same merge without counting twice") {
  const PublishedFiles files;
  const Scratch scratch;
  REQUIRE(import_into(files, scratch.path("a.db"), scratch.path("documents")).exit_code == 0);
  REQUIRE(import_into(files, scratch.path("b.db"), scratch.path("documents")).exit_code == 0);
  const std::string before = ::trimtab_program({"db", "export", scratch.path("a.db")}).out;
  REQUIRE(::trimtab_program({"db", "merge", scratch.path("a.db"), scratch.path("b.db")}).exit_code == 0);
  CHECK(::trimtab_program({"db", "export", scratch.path("a.db")}).out == before);
}

TEST_CASE("a malformed row stores and writes nothing") {
  const PublishedFiles files;
  const Scratch scratch;
  const std::string database = scratch.path("costs.db");
  files.replace("operators.csv", "101.125", "NaN");
  const Outcome refused = import_into(files, database, scratch.path("documents"));
  CHECK(refused.exit_code == 2);
  CHECK(refused.out.empty());
  CHECK(refused.err.find("operators.csv:3: fwd_us") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(database));
  CHECK_FALSE(std::filesystem::exists(scratch.path("documents")));

  // A database that holds costs keeps them as they are.
  const PublishedFiles good;
  REQUIRE(import_into(good, database, scratch.path("documents")).exit_code == 0);
  const std::string before = ::trimtab_program({"db", "export", database}).out;
  CHECK(import_into(files, database, scratch.path("documents")).exit_code == 2);
  CHECK(::trimtab_program({"db", "export", database}).out == before);
}

namespace {

// Two GPUs of one node; the form of all_reduce_perf -J, shortened to what is read.
std::string nccl_tests_file(const std::string& gpu, const std::string& time) {
  return R"({"version": 3, "args": ["all_reduce_perf"], "env": ["NCCL_ALGO=Ring"], "nccl_version": 22809,
    "config": {"nthreads": 1, "ngpus": 2, "aggregated_iterations": 1, "graph": 0,
               "devices": [{"group": 0, "hostname": "node0", "device_info": ")" +
         gpu + R"("}]},
    "results": [{"size": 1048576, "type": "float", "redop": "sum",
                 "out_of_place": {"time": )" +
         time + R"(, "nwrong": 0}}],
    "out_of_bounds": {"count": 0, "okay": "true"}})";
}

}  // namespace

TEST_CASE("what nccl-tests measured becomes costs, once") {
  const Scratch scratch;
  const std::string run = scratch.file("run.json", nccl_tests_file("NVIDIA H100", "40.5"));
  const std::string database = scratch.path("costs.db");
  const Outcome first = ::trimtab_program({"db", "import", "--format", "nccl-tests", run, database, "--json"});
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  const json answer = json::parse(first.out);
  CHECK(answer["new_profiles"] == 1);
  CHECK(answer["profiles"][0]["testbed"] == "NVIDIA H100");
  CHECK(answer["profiles"][0]["profile"] == "all_reduce over 2, intra_node");
  const std::string exported = ::trimtab_program({"db", "export", database}).out;
  CHECK(exported.find("import:nccl-tests,collective,all_reduce,float32,0,1,default,1048576,2,intra_node,ns,1,40500") !=
        std::string::npos);
  CHECK(::trimtab_program({"db", "import", "--format", "nccl-tests", run, database}).exit_code == 0);
  CHECK(::trimtab_program({"db", "export", database}).out == exported);
}

TEST_CASE("they join a fingerprint of the database only where the hardware agrees") {
  const Scratch scratch;
  const std::string database = scratch.path("costs.db");
  const std::string first = scratch.file("a.json", nccl_tests_file("NVIDIA H100", "40.5"));
  REQUIRE(::trimtab_program({"db", "import", "--format", "nccl-tests", first, database}).exit_code == 0);
  const std::string fingerprint = json::parse(::trimtab_program({"db", "show", database, "--json"}).out)
                                      .at("fingerprints")[0]
                                      .at("fingerprint")
                                      .get<std::string>();
  const std::string second = scratch.file("b.json", nccl_tests_file("NVIDIA H100", "41.5"));
  const Outcome joined =
      ::trimtab_program({"db", "import", "--format", "nccl-tests", second, database, "--fingerprint", fingerprint});
  INFO(joined.err);
  REQUIRE(joined.exit_code == 0);
  CHECK(::trimtab_program({"db", "export", database}).out.find(",ns,2,41000") != std::string::npos);
  const std::string other = scratch.file("c.json", nccl_tests_file("NVIDIA A100", "90"));
  const Outcome refused =
      ::trimtab_program({"db", "import", "--format", "nccl-tests", other, database, "--fingerprint", fingerprint});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("the GPU was 'NVIDIA A100' there and is 'NVIDIA H100' here") != std::string::npos);
  const Outcome unknown =
      ::trimtab_program({"db", "import", "--format", "nccl-tests", other, database, "--fingerprint", "zzzz"});
  CHECK(unknown.exit_code == 2);
}

TEST_CASE("an import without a database to write to is refused") {
  const Outcome outcome = ::trimtab_program({"db", "import", "--format", "nccl-tests", "run.json"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("last, the cost database") != std::string::npos);
}

TEST_CASE("Oases' profile: documents for what it measured, nothing stored of a malformed file") {
  const Scratch scratch;
  const std::string header =
      "hidden_size,tp_degree,micro_batch,valid,attn_fwd_ms,attn_bwd_ms,mlp_fwd_ms,mlp_bwd_ms,allreduce_ms,"
      "runtime_peak_increase_mib\n";
  const std::string directory = scratch.path("profile");
  std::filesystem::create_directory(directory);
  const std::string database = scratch.path("costs.db");
  const std::vector<std::string> command{"db",      "import", "--format",    "oases",
                                         directory, database, "--documents", scratch.path("documents")};
  static_cast<void>(scratch.file("profile/profile_3090.csv", header + "4096,4,2,1,3.1,4.2,2.3,nan,5.5,64\n"));
  const Outcome refused = ::trimtab_program(command);
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("profile_3090.csv:2: mlp_bwd_ms") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(database));
  CHECK_FALSE(std::filesystem::exists(scratch.path("documents")));

  static_cast<void>(scratch.file("profile/profile_3090.csv", header + "4096,4,2,1,3.1,4.2,2.3,3.4,5.5,64\n"));
  const Outcome imported = ::trimtab_program(command);
  INFO(imported.err);
  CHECK(imported.exit_code == 0);
  CHECK(std::filesystem::exists(scratch.path("documents/oases-llama-7B.json")));
  CHECK(imported.err.find("remark: bert-large: profile_3090.csv has no row of hidden size 1024") != std::string::npos);
}
