#include "schema/frame_bounds.hpp"

#include <catch2/catch.hpp>

#include "../../hollow_frames.hpp"
#include "../../peak_memory.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using Catch::Contains;

namespace {

std::string refusal(const Status& status) {
  return status.ok() ? "it was not refused" : status.error().message;
}

wire::FromAgent hello_with(int launches) {
  wire::FromAgent message;
  for (int i = 0; i < launches; ++i) message.mutable_hello()->add_launches()->set_launch(1);
  return message;
}

}  // namespace

TEST_CASE("millions of empty submessages are refused by their field's name, and nothing is allocated for them") {
  for (const test::HollowFrame& kind : test::hollow_frames()) {
    const std::string frame = test::hollow_of_8_mib(kind);
    const test::PeakMemory memory;
    const std::string said = refusal(check_from_agent(frame));
    CHECK(memory.growth_bytes() < 8 << 20);
    CHECK_THAT(said, Contains(kind.field) && Contains(std::to_string(frame.size())));
  }
}

TEST_CASE("a field's entries are counted over the whole frame, however they come") {
  CHECK(check_from_agent(hello_with(kMostLaunches).SerializeAsString()).ok());
  CHECK_THAT(refusal(check_from_agent(hello_with(kMostLaunches + 1).SerializeAsString())), Contains("Hello.launches"));
  // Two hellos are merged when they are parsed.
  const std::string half = hello_with(kMostLaunches / 2 + 1).SerializeAsString();
  CHECK(check_from_agent(half).ok());
  CHECK_THAT(refusal(check_from_agent(half + half)), Contains("Hello.launches"));
  // One body after the other is made and thrown away.
  std::string changing;
  for (int i = 0; i < 1000; ++i) changing += test::tag(1) + '\0' + test::tag(2) + '\0';
  CHECK_THAT(refusal(check_from_agent(changing)), Contains("FromAgent.hello"));
}

TEST_CASE("repeated numbers are counted as they are, packed and one by one") {
  wire::FromAgent message;
  wire::TraceRecord& record = *message.mutable_trace_chunk()->add_records();
  for (std::uint32_t i = 0; i < kMostNumbers; ++i) record.add_detail(i & 1U);
  const std::string most = message.SerializeAsString();
  CHECK(check_from_agent(most).ok());
  message.mutable_trace_chunk()->add_records()->add_detail(1);
  CHECK_THAT(refusal(check_from_agent(message.SerializeAsString())), Contains("TraceRecord.detail"));
  std::string single;
  for (std::uint32_t i = 0; i <= kMostNumbers; ++i) single += std::string("\x50\x01", 2);  // field 10, a varint
  const std::string in_record = test::tag(7) + test::varint(single.size()) + single;
  const std::string chunk = test::tag(20) + test::varint(in_record.size()) + in_record;
  CHECK_THAT(refusal(check_from_agent(chunk)), Contains("TraceRecord.detail"));
}

TEST_CASE("what the coordinator sends is counted, too") {
  wire::ToAgent message;
  for (std::uint32_t i = 0; i < kMostEntries; ++i) message.mutable_unfinished_jobs()->add_jobs("job");
  CHECK(check_to_agent(message.SerializeAsString()).ok());
  message.mutable_unfinished_jobs()->add_jobs("job");
  CHECK_THAT(refusal(check_to_agent(message.SerializeAsString())), Contains("UnfinishedJobs.jobs"));
}

TEST_CASE("bytes that are no message are refused before they are parsed, and every cut of one that is") {
  wire::FromAgent message = hello_with(3);
  message.mutable_hello()->set_node("n0");
  const std::string whole = message.SerializeAsString();
  CHECK(check_from_agent(whole).ok());
  CHECK(check_from_agent("").ok());
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    CHECK_THAT(refusal(check_from_agent(whole.substr(0, bytes))), Contains("is not a message"));
  }
  for (const char* group : {"\x0b\x0c", "\x0a\x02\x0b\x0c"}) CHECK_FALSE(check_from_agent(group).ok());
  CHECK_FALSE(check_from_agent(std::string("\x0a\xff\xff\xff\xff\x0f", 6)).ok());
}

TEST_CASE("a few fields of a later release are no matter") {
  const std::string later = test::tag(1) + test::varint(6) + std::string("\xa0\x3f\x01\xaa\x3f\x00", 6);
  CHECK(check_from_agent(later).ok());
  wire::FromAgent message;
  CHECK(message.ParseFromString(later));
}
