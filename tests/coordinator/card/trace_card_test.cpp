// Cards of made traces whose truth is known.

#include <algorithm>
#include <catch2/catch.hpp>

#include "coordinator/trace_card.hpp"
#include "jobs/card_text.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr double kSure = 0.005;

TracedWork work(TracedKind kind, std::int64_t begin_ns, std::int64_t length_ns, std::int64_t delay_ns = 1000) {
  return {begin_ns, begin_ns + length_ns, begin_ns - delay_ns, kind};
}

// Steps of 100 ms: 60 ms of computation, an all-reduce of 30 ms of which 10 lie under it, an all-gather of 5 ms beside
// the all-reduce's end, a copy of 4 ms, and 16 ms of idling. The device runs `behind` the host.
TracedRank made_rank(std::int32_t number, int steps = 8, double slower = 1, std::int64_t behind = 3 * kMs,
                     bool closed = true) {
  TracedRank rank;
  rank.file = "rank" + std::to_string(number) + ".json";
  rank.rank = number;
  rank.world_size = 2;
  rank.on_device = true;
  rank.facts.device = "cuda";
  for (int i = 0; i < steps; ++i) {
    const std::int64_t host = 100 * kMs * i;
    const std::int64_t begin = host + behind;
    const auto computation = static_cast<std::int64_t>(60.0 * kMs * slower);
    rank.steps.push_back({i + 10, host, host + 100 * kMs});
    rank.work.push_back(work(TracedKind::kComputation, begin, computation, behind));
    rank.work.push_back(work(TracedKind::kAllReduce, begin + 50 * kMs, 30 * kMs, behind));
    rank.work.push_back(work(TracedKind::kAllGather, begin + 78 * kMs, 5 * kMs, behind));
    rank.work.push_back(work(TracedKind::kCopy, begin + 80 * kMs, 4 * kMs, behind));
  }
  if (!closed) return rank;
  // What ends the last step.
  const std::int64_t last = 100 * kMs * steps;
  rank.steps.push_back({steps + 10, last, last + kMs});
  rank.work.push_back(work(TracedKind::kComputation, last + behind, 1, behind));
  return rank;
}

Result<api::Card> card_of(const std::vector<TracedRank>& ranks) {
  TraceCard traces;
  for (const TracedRank& rank : ranks) traces.add(rank);
  return traces.card("made");
}

api::Card card(const std::vector<TracedRank>& ranks) {
  const auto made = card_of(ranks);
  INFO((made ? "" : made.error().message));
  REQUIRE(made.ok());
  return *made;
}

const api::CardFinding* finding(const api::Card& card, api::FindingName name) {
  const auto found = std::ranges::find_if(card.findings, [name](const auto& one) { return one.name == name; });
  return found == card.findings.end() ? nullptr : &*found;
}

bool says(const api::Card& card, const std::string& note) {
  return std::ranges::any_of(card.notes, [&](const std::string& one) { return one.find(note) != std::string::npos; });
}

}  // namespace

TEST_CASE("a traced step's time is shared out exactly, and communication by kind") {
  const api::Card one = card({made_rank(0)});
  CHECK(one.recorded_by == "PyTorch Profiler");
  CHECK(one.steps == 9);
  CHECK(one.step_ms.median == Approx(100));
  CHECK(one.shares.computation == Approx(0.60).margin(kSure));
  CHECK(one.shares.exposed_communication == Approx(0.23).margin(kSure));
  CHECK(one.shares.idle == Approx(0.16).margin(kSure));
  CHECK(one.shares.other == Approx(0.01).margin(kSure));  // the copy beside no communication
  REQUIRE(one.communication.size() == 2);
  CHECK(one.communication[0].kind == "all_reduce");
  CHECK(one.communication[0].exposed == Approx(0.20).margin(kSure));
  CHECK(one.communication[0].hidden == Approx(0.10).margin(kSure));
  CHECK(one.communication[1].exposed == Approx(0.03).margin(kSure));
  CHECK(one.communication[1].hidden == 0);
  CHECK(says(one, "traces of 1 of 2 ranks"));
  CHECK(says(one, "give the traces of all ranks"));
  const std::string text = cli::card_text(one);
  CHECK(text.find("made (PyTorch Profiler): 1 rank, 9 steps\n") == 0);
  CHECK(text.find("  exposed all_reduce 20 %, all_gather 3 %\n") != std::string::npos);
}

TEST_CASE("a device that runs a step behind its host has the same shares") {
  const api::Card one = card({made_rank(0, 8, 1, 140 * kMs)});
  CHECK(one.shares.computation == Approx(0.60).margin(kSure));
  CHECK(one.shares.idle == Approx(0.16).margin(kSure));
}

TEST_CASE("a slow rank is found by the traces of both, step by step") {
  // Rank 1 computes 12 % longer; its all-reduce is the shorter for that.
  const api::Card both = card({made_rank(0), made_rank(1, 8, 1.12)});
  const api::CardFinding* slow = finding(both, api::FindingName::kSlowRank);
  REQUIRE(slow != nullptr);
  CHECK(slow->rank == 1);
  CHECK(slow->why.find("12.0 %") != std::string::npos);
  CHECK_FALSE(says(both, "give the traces of all ranks"));
  CHECK(finding(card({made_rank(0), made_rank(1)}), api::FindingName::kSlowRank) == nullptr);
}

TEST_CASE("exposed communication is found where no rank waits less") {
  CHECK(finding(card({made_rank(0), made_rank(1)}), api::FindingName::kExposedCommunication) != nullptr);
  CHECK(finding(card({made_rank(0)}), api::FindingName::kExposedCommunication) == nullptr);
}

TEST_CASE("stages of a pipeline are not compared, and get a pipeline's advice") {
  std::vector<TracedRank> stages{made_rank(0, 8, 1, kMs, false), made_rank(1, 8, 1.12, kMs, false)};
  for (TracedRank& rank : stages) {
    for (TracedWork& one : rank.work) {
      if (one.kind == TracedKind::kAllReduce) one.kind = TracedKind::kSendReceive;
    }
  }
  const api::Card both = card(stages);
  CHECK(finding(both, api::FindingName::kSlowRank) == nullptr);
  CHECK(says(both, "no rank is called slow"));
  REQUIRE(finding(both, api::FindingName::kExposedCommunication) != nullptr);
  CHECK(finding(both, api::FindingName::kExposedCommunication)->advice.find("fewer pipeline stages") !=
        std::string::npos);
}

TEST_CASE("few steps give findings all the same, and say how sure they are") {
  const api::Card few = card({made_rank(0, 2, 1, kMs, false), made_rank(1, 2, 1.12, kMs, false)});
  CHECK(few.steps == 2);
  CHECK(finding(few, api::FindingName::kSlowRank) != nullptr);
  CHECK(says(few, "of 2 steps the figures in brackets are the least and the largest"));
}

TEST_CASE("waiting for data is told as far as the device idles") {
  TracedRank rank = made_rank(0);
  for (const TracedStep& step : rank.steps) rank.data.push_back({step.begin_ns, step.begin_ns + 14 * kMs});
  rank.facts.workers = 0;
  const api::Card one = card({rank});
  CHECK(one.shares.data == Approx(0.14).margin(0.02));
  CHECK(one.shares.idle == Approx(0.02).margin(0.02));
  const api::CardFinding* slow = finding(one, api::FindingName::kSlowData);
  REQUIRE(slow != nullptr);
  CHECK(slow->advice.find("num_workers=0") != std::string::npos);
}

TEST_CASE("a device that idles between small kernels is launch-bound") {
  TracedRank rank;
  rank.file = "small.json";
  rank.on_device = true;
  rank.facts.device = "cuda";
  for (int i = 0; i < 8; ++i) {
    rank.steps.push_back({i, 10 * kMs * i, 10 * kMs * (i + 1)});
    for (int kernel = 0; kernel < 500; ++kernel) {
      rank.work.push_back(work(TracedKind::kComputation, 10 * kMs * i + 20'000 * kernel, 12'000));
    }
  }
  const api::Card one = card({rank});
  CHECK(one.shares.computation == Approx(0.60).margin(kSure));
  CHECK(one.shares.launch_bound == Approx(0.40).margin(kSure));
  CHECK(finding(one, api::FindingName::kLaunchBound) != nullptr);
}

TEST_CASE("idling that a late host causes is told apart from idling in front of work that waits") {
  TracedRank rank;
  rank.file = "gaps.json";
  rank.on_device = true;
  rank.facts.device = "cuda";
  for (int i = 0; i < 8; ++i) {
    const std::int64_t begin = 100 * kMs * i;
    rank.steps.push_back({i, begin, begin + 100 * kMs});
    rank.work.push_back(work(TracedKind::kComputation, begin + kMs, 40 * kMs));
    rank.work.push_back(work(TracedKind::kComputation, begin + 71 * kMs, 20 * kMs, 5 * kMs));  // 30 ms too late
    rank.work.push_back(work(TracedKind::kComputation, begin + 96 * kMs, 5 * kMs, 20 * kMs));  // it waited for a stream
  }
  CHECK(says(card({rank}), "for 30.0 % of a step the device idles because the host has not handed out"));
  for (TracedWork& one : rank.work) one.launched_ns = one.begin_ns > 50 * kMs ? one.begin_ns - 50 * kMs : 0;
  CHECK_FALSE(says(card({rank}), "the host has not handed out"));
}

TEST_CASE("memory that a trace tells is told") {
  TracedRank rank = made_rank(0);
  rank.facts.memory_used_bytes = 20;
  rank.facts.memory_total_bytes = 80;
  const api::Card one = card({rank});
  CHECK(one.memory.left_bytes == 60);
  CHECK(finding(one, api::FindingName::kMemoryLeft) != nullptr);
}

TEST_CASE("without marked steps the whole trace is one, and says so") {
  TracedRank rank = made_rank(0, 4);
  rank.steps.clear();
  const api::Card one = card({rank});
  CHECK(one.steps == 1);
  CHECK(one.shares.computation == Approx(0.60).margin(kSure));
  CHECK(says(one, "no steps are marked"));
}

TEST_CASE("only steps that all traces have are compared; without one they are refused") {
  TracedRank later = made_rank(1);
  for (TracedStep& step : later.steps) step.number += 3;
  CHECK(card({made_rank(0), later}).steps == 6);
  for (TracedStep& step : later.steps) step.number += 100;
  const auto refused = card_of({made_rank(0), later});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        "rank0.json: none of its steps is in all traces: rank 0 has 10 to 18, rank 1 has 113 to 121 (rank1.json); "
        "record the "
        "same steps on all ranks, or give one trace alone");
}

TEST_CASE("on a host waiting for data counts first, then computation") {
  TracedRank rank;
  rank.file = "host.json";
  rank.facts.device = "cpu";
  for (int i = 0; i < 8; ++i) {
    const std::int64_t begin = 100 * kMs * i;
    rank.steps.push_back({i, begin, begin + 100 * kMs});
    rank.data.push_back({begin, begin + 20 * kMs});
    rank.work.push_back(work(TracedKind::kComputation, begin + 10 * kMs, 50 * kMs));  // 10 of it within the data's
    rank.work.push_back(work(TracedKind::kAllReduce, begin + 50 * kMs, 40 * kMs));
  }
  const api::Card one = card({rank});
  CHECK(one.shares.data == Approx(0.20).margin(kSure));
  CHECK(one.shares.computation == Approx(0.40).margin(kSure));
  CHECK(one.shares.exposed_communication == Approx(0.30).margin(kSure));
  CHECK(one.shares.other == Approx(0.10).margin(kSure));
}

TEST_CASE("a trace with hostile steps and times gives some card") {
  TracedRank rank;
  rank.file = "odd.json";
  rank.on_device = true;
  rank.steps = {{5, 0, 0}, {6, 10, 10}};
  rank.work = {{0, 0, 0, TracedKind::kComputation},
               {0, std::int64_t{1} << 61, TracedWork::kNotTold, TracedKind::kCopy}};
  CHECK(card_of({rank}).ok());
  rank.work.clear();
  CHECK(card_of({rank}).ok());
}
