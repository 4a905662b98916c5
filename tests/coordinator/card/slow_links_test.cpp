// A slow link, by what the job's own connections carry and by probes.

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "made_job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace trimtab::test;

namespace {

// Of three ranks that wait for communication a third of a step.
CardFold waiting_job() {
  MadeJob job;
  job.ranks = 3;
  job.fault = Fault::kSlowLink;
  CardFold fold = folded(job);
  for (std::int32_t rank = 0; rank < 3; ++rank) fold.facts(rank, {});
  return fold;
}

api::RankFacts carrying(const std::string& from, const std::string& to, std::int64_t megabytes, double busy_s) {
  api::RankFacts facts;
  facts.links = {{from, to, megabytes * 1'000'000, static_cast<std::int64_t>(busy_s * 1e9)}};
  return facts;
}

CardLink probed(const std::string& node, const std::string& peer, double megabytes) {
  return {node, peer, megabytes * 1e6, 0.05};
}

}  // namespace

TEST_CASE("of a single pair the slower direction is told, with the rank that sends") {
  CardFold fold = waiting_job();
  fold.facts(0, carrying("10.0.0.1", "10.0.0.2", 100, 4));
  fold.facts(1, carrying("10.0.0.2", "10.0.0.1", 100, 2));
  const api::Card card = fold.card();
  REQUIRE(first_finding(card) == "slow_link");
  CHECK(card.findings.front().rank == 0);
  CHECK(card.findings.front().why.find("the link from rank 0 (10.0.0.1) to rank 1 (10.0.0.2) carries 200 Mbit/s") !=
        std::string::npos);
}

TEST_CASE("links that carry alike, or little, or hardly at all are no finding") {
  const auto [first_mb, first_s, second_mb, second_s] = GENERATE(table<std::int64_t, double, std::int64_t, double>({
      {100, 2.2, 100, 2.0},   // alike
      {1, 0.04, 1, 0.02},     // too little to say anything of bandwidth
      {100, 4, 10, 0.2},      // not compared: the other carries a tenth
      {100, 0.04, 100, 0.02}  // fast: it is busy for a small part of the time
  }));
  CardFold fold = waiting_job();
  fold.facts(0, carrying("10.0.0.1", "10.0.0.2", first_mb, first_s));
  fold.facts(1, carrying("10.0.0.2", "10.0.0.1", second_mb, second_s));
  CHECK(first_finding(fold.card()) == "healthy");
}

TEST_CASE("a probed link below the others is told, and the node at which all slow ones end") {
  CardFold fold = waiting_job();
  fold.links({probed("a", "b", 100), probed("a", "c", 50), probed("b", "c", 52)});
  const api::Card card = fold.card();
  REQUIRE(first_finding(card) == "slow_link");
  CHECK(card.findings.front().why.find("all slow links end at node c") != std::string::npos);
  CHECK(card.findings.front().gain == Approx(0.15).margin(0.08));
}

TEST_CASE("a probed link below its own earlier look is told, where there is no other") {
  CardFold fold = waiting_job();
  CardLink link = probed("a", "b", 50);
  fold.links({link});
  CHECK(first_finding(fold.card()) == "healthy");
  link.earlier_bytes_per_s = 1e8;
  fold.links({link});
  CHECK(first_finding(fold.card()) == "slow_link");
}

TEST_CASE("a slow link costs a job nothing that hardly waits for communication") {
  MadeJob job;
  job.ranks = 3;
  job.steps = 60;
  CardFold fold = folded(job);
  fold.links({probed("a", "b", 100), probed("a", "c", 90), probed("b", "c", 80)});
  CHECK(first_finding(fold.card()) == "healthy");
}
