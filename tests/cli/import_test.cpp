#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "published_files.hpp"

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
