#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "../schema/published/published_files.hpp"
#include "../schema/published/traces/made_trace.hpp"
#include "program.hpp"

using nlohmann::json;

TEST_CASE("explain says where the steps of a packed trace go") {
  const trimtab::test::PublishedFiles files;
  files.write("rank0.json", trimtab::test::eight_steps().text(0, 2));
  files.pack("rank0.json");
  const std::string trace = files.path() + "/rank0.json.gz";
  const Outcome shown = ::trimtab_program({"explain", trace});
  INFO(shown.err);
  REQUIRE(shown.exit_code == 0);
  CHECK(shown.out.find("rank0.json.gz (PyTorch Profiler): 1 rank, 8 steps\n") == 0);
  CHECK(shown.out.find("exposed all_reduce 20 %") != std::string::npos);
  const Outcome asked = ::trimtab_program({"explain", "--json", trace});
  const json card = json::parse(asked.out);
  CHECK(card["schema"] == "trimtab.card/1");
  CHECK(card["shares"]["computation"].get<double>() == Approx(0.6).margin(0.02));
  CHECK(card["shares"]["exposed_communication"].get<double>() == Approx(0.2).margin(0.02));
  CHECK(card["shares"]["idle"].get<double>() == Approx(0.15).margin(0.02));
}

TEST_CASE("explain compares the ranks of several traces") {
  const Scratch scratch;
  const std::string first = scratch.file("a.json", trimtab::test::eight_steps(6000).text(0, 2));
  const std::string second = scratch.file("b.json", trimtab::test::eight_steps(6900).text(1, 2));
  const json card = json::parse(::trimtab_program({"explain", "--json", first, second}).out);
  CHECK(card["ranks"] == 2);
  CHECK(card["findings"][0]["name"] == "slow_rank");
  CHECK(card["findings"][0]["rank"] == 1);
}

TEST_CASE("explain refuses what is no trace with what it looks like") {
  const Scratch scratch;
  const Outcome refused = ::trimtab_program({"explain", scratch.file("train.sh", "#!/bin/sh\nexec python train.py\n")});
  CHECK(refused.exit_code == 2);
  CHECK(refused.out.empty());
  CHECK(refused.err.find("train.sh: it is a script; give the file that it writes") != std::string::npos);
  CHECK(::trimtab_program({"explain"}).exit_code == 2);
}
