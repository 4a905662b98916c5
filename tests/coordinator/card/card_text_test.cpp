#include "jobs/card_text.hpp"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "../../golden_text.hpp"
#include "made_job.hpp"
#include "terminal_text.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

MadeJob job_with(Fault fault, std::int32_t ranks) {
  MadeJob job;
  job.fault = fault;
  job.ranks = ranks;
  return job;
}

void check(const std::string& name, const api::Card& card) {
  const std::string text = cli::card_text(card);
  CHECK(golden_text(std::string(TRIMTAB_CARDS) + "/" + name + ".txt", text) == text);
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) CHECK(cli::display_width(line) <= 80);
  CHECK(count <= 25);
}

}  // namespace

TEST_CASE("cards as they are printed") {
  check("healthy", card_of(job_with(Fault::kNone, 2)));
  check("slow_rank", card_of(job_with(Fault::kSlowRank, 4)));
  check("slow_data", card_of(job_with(Fault::kSlowData, 2)));
  check("small_microbatch", card_of(job_with(Fault::kSmallMicrobatch, 2)));
  check("everything_recomputed", card_of(job_with(Fault::kRecomputed, 2)));
  check("slow_link", card_of(job_with(Fault::kSlowLink, 3)));
  check("no_steps", coordinator::CardFold("new", 2).card());
}

TEST_CASE("a card of many long findings keeps to its size, and what a job says reaches no terminal as it is") {
  api::Card card;
  card.job = "evil\x1b[2J";
  card.steps = 10;
  card.ranks = 1;
  for (int i = 0; i < 9; ++i) {
    api::CardFinding finding;
    finding.name = api::FindingName::kSlowData;
    finding.gain = 0.1;
    finding.advice = std::string(900, 'x') + " " + std::string(900, 'y');
    finding.why = finding.advice;
    card.findings.push_back(finding);
  }
  const std::string text = cli::card_text(card);
  CHECK(text.find('\x1b') == std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(cli::display_width(line) <= 80);
  CHECK(text.find("and 6 more") != std::string::npos);
}
