#include "node/host_metrics.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::agent;

TEST_CASE("samples become metrics with their labels escaped") {
  static constexpr host::Measure kMeasure{"trimtab_test_bytes", "A test.", true};
  const auto metrics =
      host_metrics({{&kMeasure, {{"device", "0"}, {"name", "a\"b"}}, 3.5}, {&kMeasure, {{"device", "1"}}, 4}});
  CHECK(net::render_metrics(metrics) ==
        "# HELP trimtab_test_bytes A test.\n# TYPE trimtab_test_bytes counter\n"
        "trimtab_test_bytes{device=\"0\",name=\"a\\\"b\"} 3.5\ntrimtab_test_bytes{device=\"1\"} 4\n");
}

TEST_CASE("ranks that run have their process's memory and time; those that ended or are gone have none") {
  LedgerRank own;
  own.id = {"gpt", "", 3};
  own.pid = ::getpid();
  LedgerRank ended = own;
  ended.id.rank = 4;
  ended.ended = true;
  LedgerRank gone = own;
  gone.id.rank = 5;
  gone.pid = 0x7ffffff0;
  const auto metrics = rank_process_metrics({own, ended, gone}, "/");
  REQUIRE(metrics.size() == 3);
  CHECK(metrics[0].name == "trimtab_rank_resident_bytes");
  CHECK(metrics[0].value > 0);
  CHECK(metrics[0].labels == "{job=\"gpt\",variant=\"\",rank=\"3\"}");
  CHECK(metrics[1].is_counter);
  CHECK(metrics[2].value >= 1);
}

TEST_CASE("the log hears of sources that fail or hang, not of those that work") {
  using host::SourceState;
  CHECK(source_line({"gpu", SourceState::kFailed, "no driver"}) == "what the source 'gpu' reads is missing: no driver");
  CHECK(source_line({"gpu", SourceState::kStalled, "since 12 s"}) == "the source 'gpu' hangs: since 12 s");
  CHECK(source_line({"gpu", SourceState::kGood, ""}).empty());
  CHECK(source_line({"gpu", SourceState::kWaiting, ""}).empty());
}
