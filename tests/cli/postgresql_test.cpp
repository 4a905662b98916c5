// Verbs whose cost database is on a PostgreSQL server.

#include <catch2/catch.hpp>
#include <string>

#include "scene.hpp"
#include "tested_backends.hpp"

using namespace trimtab;

namespace {

bool server_absent() {
  return test::backends().size() == 1;
}

}  // namespace

TEST_CASE("a password in a database's name is refused and not repeated by any verb", "[postgresql]") {
  const Scene scene;
  const std::string name = "postgresql://ana:sesame@db.lab/costs";
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"db", "show", name}, {"db", "merge", name, scene.costs}, {"db", "merge", scene.scratch.path("x"), name}}) {
    const Outcome outcome = ::trimtab_program(arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find("PGPASSFILE") != std::string::npos);
    CHECK((outcome.out + outcome.err).find("sesame") == std::string::npos);
  }
}

TEST_CASE("costs go from a file to a server and back unchanged, and plans are found by either", "[postgresql]") {
  if (server_absent()) return;
  const Scene scene;
  const test::DatabasePlace place(test::Backend::kPostgres);
  const std::string server = place.name("costs");
  CHECK(::trimtab_program({"db", "show", server}).exit_code == 3);  // nothing is made by looking
  REQUIRE(::trimtab_program({"db", "merge", server, scene.costs}).exit_code == 0);
  const Outcome again = ::trimtab_program({"db", "merge", server, scene.costs, "--json"});
  CHECK(again.out.find("\"new_batches\":0") != std::string::npos);
  const std::string back = scene.scratch.path("back.db");
  REQUIRE(::trimtab_program({"db", "merge", back, server}).exit_code == 0);
  const std::string exported = ::trimtab_program({"db", "export", scene.costs, "--names"}).out;
  CHECK(exported.size() > 100);
  CHECK(::trimtab_program({"db", "export", server, "--names"}).out == exported);
  CHECK(::trimtab_program({"db", "export", back, "--names"}).out == exported);
  CHECK(::trimtab_program({"db", "diff", scene.costs, server}).out.find("No cost differs") != std::string::npos);
  const std::vector<std::string> evaluate{"evaluate", "--model",  scene.model, "--cluster", scene.cluster,
                                          "--plan",   scene.plan, "--json",    "--costs",   server};
  std::vector<std::string> by_file = evaluate;
  by_file.back() = scene.costs;
  const Outcome priced = ::trimtab_program(evaluate);
  CHECK(priced.exit_code == 0);
  CHECK(priced.out == ::trimtab_program(by_file).out);
}
