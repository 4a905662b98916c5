// What agents send at most, by their own encoders, passes the bounds of a frame: also what earlier releases have
// spooled.

#include <catch2/catch.hpp>

#include "costs/collective_samples.hpp"
#include "costs/cost_batches.hpp"
#include "records/trace_recorder.hpp"
#include "schema/fingerprint.hpp"
#include "schema/frame_bounds.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

// Batches were once of 512 KiB, of which each cost took 256 bytes.
constexpr std::size_t kMostOfEarlier = 2048;

std::vector<Cost> costs_of(std::size_t count) {
  std::vector<Cost> costs(count);
  for (std::size_t i = 0; i < count; ++i) {
    costs[i].key.subject = std::to_string(i);
    costs[i].statistics.add(1);
  }
  return costs;
}

Status check_batch(const std::string& payload) {
  wire::FromAgent message;
  REQUIRE(message.mutable_cost_batch()->ParseFromString(payload));
  return check_from_agent(message.SerializeAsString());
}

}  // namespace

TEST_CASE("the largest batches of costs pass, those of earlier releases' spools too") {
  CostCollection collection;
  const CostOrigin origin{{"job", to_json(Fingerprint{{{"kind", "cpu"}}, {}, {}, {}})}, {}};
  collection.add(origin.owner, costs_of(2 * CostCollection::kMostWaiting));
  std::size_t batches = 0;
  std::size_t most = 0;
  collection.flush([&](const CostOrigin& of, const std::vector<Cost>& costs) {
    most = std::max(most, costs.size());
    return ++batches > 0 && check_batch(encode_batch(of, costs)).ok();
  });
  CHECK(collection.empty());
  CHECK(batches > 1);
  CHECK(most <= kMostOfEarlier);
  CHECK(check_batch(encode_batch(origin, costs_of(kMostOfEarlier))).ok());
}

TEST_CASE("a full chunk of a trace passes, each record with names and details of its own") {
  RingTraceOrder order;
  order.from_ns = 1;
  order.length_ns = std::uint64_t{1} << 40;
  order.max_bytes = std::uint64_t{1} << 30;
  RingTrace trace(order, {});
  std::vector<std::string> names(2 * RingTrace::kChunkRecords);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = "a name " + std::to_string(i);
  std::optional<wire::TraceChunk> full;
  for (std::size_t i = 0; i < names.size() && !full; i += 2) {
    RangeRecord record;
    record.name = names[i];
    record.domain = names[i + 1];
    record.begin_ns = 100 + i;
    record.end_ns = 200 + i;
    record.detail.fill(0xffff);
    full = trace.add(record);
  }
  REQUIRE(full);
  CHECK(full->records_size() == RingTrace::kChunkRecords);
  CHECK(full->names_size() == 2 * RingTrace::kChunkRecords);
  wire::FromAgent message;
  *message.mutable_trace_chunk() = *full;
  CHECK(check_from_agent(message.SerializeAsString()).ok());
}

TEST_CASE("as many stamps as a rank sends at once pass") {
  CollectiveStamp stamp;
  stamp.gpu_ahead = ClockDifference::Offset{1, 1};
  const auto message = stamps_message({"job", "{}"}, 0, std::vector(CollectiveSamples::kMost, stamp));
  CHECK(message.collective_stamps().stamps_size() == CollectiveSamples::kMost);
  CHECK(check_from_agent(message.SerializeAsString()).ok());
}
