#include "agents/wire_events.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <vector>

#include "agents/peer_text.hpp"
#include "schema/step_number.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// Of three-byte characters, so that a cut at any round number falls into one.
std::string euros(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "\xe2\x82\xac";
  return text;
}

template <typename News>
News news(const wire::RankEvent& event) {
  return std::get<News>(from_rank(event).value().news);
}

}  // namespace

TEST_CASE("what is printed of a peer's text is one line, whatever it sent") {
  CHECK(printable("a\nb\x1b[2J\x7f") == "a?b?[2J?");
  CHECK(printable("\xc2\x9b[2J \xc3\xa9") == "?[2J \xc3\xa9");
  CHECK(printable(std::string(1000, 'x')).size() == 400);
  CHECK(is_printable("n0.\xc3\xa9"));
  CHECK_FALSE(is_printable("n0\r"));
}

TEST_CASE("texts of ranks are kept at a length that an agent sends, and no longer") {
  wire::RankEvent event;
  event.mutable_plan_refuse()->set_reason(euros(10'000));
  event.mutable_plan_refuse()->set_message(euros(1 << 20));
  CHECK(news<RankRefused>(event).reason == euros(kLongestReason - 3));
  CHECK(news<RankRefused>(event).message == euros(kLongestMessage - 3));
  event.mutable_plan_failed()->set_reason(euros(10'000));
  event.mutable_plan_failed()->set_message(euros(1 << 20));
  CHECK(news<RankFailed>(event).reason.size() <= kLongestReason);
  CHECK(news<RankFailed>(event).message.size() <= kLongestMessage);
  event.mutable_exited()->set_last_output(euros(1 << 20) + "the reason");
  const std::string output = news<RankExited>(event).last_output;
  CHECK(output.size() <= kLongestOutput);
  CHECK(output.ends_with("the reason"));
  CHECK(output.starts_with("\xe2"));
  event.mutable_submission()->set_state("queued");
  event.mutable_submission()->set_message(std::string(1 << 20, 'x'));
  CHECK(news<RankSubmission>(event).message.size() == kLongestMessage);
  event.mutable_step()->set_samples(std::string(kLongestSamples, 'a'));
  CHECK(from_rank(event));
  event.mutable_step()->set_samples(std::string(kLongestSamples + 1, 'a'));
  CHECK_FALSE(from_rank(event));
}

TEST_CASE("a rank's preparations come with its step, and are a count") {
  wire::RankEvent event;
  event.mutable_step()->set_step(4);
  CHECK(news<RankStep>(event).preparations == 0);
  event.mutable_step()->set_preparations(7);
  CHECK(news<RankStep>(event).preparations == 7);
  event.mutable_step()->set_preparations(-1);
  CHECK_FALSE(from_rank(event));
}

TEST_CASE("what a rank has measured again comes as it was told, and no more of it than ranks tell") {
  wire::RankEvent event;
  wire::Measured& told = *event.mutable_measured();
  told.set_number(3);
  told.set_step(700);
  told.set_took_ns(5);
  wire::MeasuredItem& first = *told.add_items();
  first.set_item(2);
  first.add_costs()->add_values(7);
  for (int i = 0; i < 100; ++i) first.mutable_costs(0)->add_values(8);
  told.add_items()->set_error(euros(10'000));
  for (int i = 0; i < 1000; ++i) told.add_items();
  const auto measured = news<RankMeasured>(event);
  CHECK(measured.number == 3);
  CHECK(measured.step == 700);
  CHECK(measured.took == Nanoseconds(5));
  REQUIRE(measured.items.size() == 64);
  CHECK(measured.items[0].item == 2);
  REQUIRE(measured.items[0].costs.size() == 1);
  CHECK(measured.items[0].costs[0].front() == 7);
  CHECK(measured.items[0].costs[0].size() == 16);
  CHECK(measured.items[1].error.size() <= kLongestReason);
  told.set_took_ns(-1);
  CHECK(news<RankMeasured>(event).took == Nanoseconds(0));
}

TEST_CASE("no event of a rank speaks of a step that no job reaches") {
  using Set = std::function<void(wire::RankEvent&, std::int64_t)>;
  const std::vector<Set> every{[](auto& event, auto step) { event.mutable_connected()->set_step(step); },
                               [](auto& event, auto step) { event.mutable_step()->set_step(step); },
                               [](auto& event, auto step) { event.mutable_plan_ack()->set_step(step); },
                               [](auto& event, auto step) { event.mutable_plan_active()->set_step(step); },
                               [](auto& event, auto step) { event.mutable_plan_failed()->set_step(step); },
                               [](auto& event, auto step) { event.mutable_measured()->set_step(step); },
                               [](auto& event, auto step) { event.mutable_bye()->set_step(step); }};
  for (const Set& set : every) {
    wire::RankEvent event;
    for (const std::int64_t step : {std::int64_t{0}, kLargestStep}) {
      set(event, step);
      CHECK(from_rank(event));
    }
    for (const std::int64_t step : {std::int64_t{-1}, kLargestStep + 1, std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min()}) {
      set(event, step);
      INFO(event.ShortDebugString());
      CHECK_FALSE(from_rank(event));
    }
  }
}

TEST_CASE("what became no number comes with its step, where this release knows it") {
  wire::RankEvent event;
  event.mutable_step()->set_step(4);
  event.mutable_step()->set_gradient_norm(2);
  CHECK(news<RankStep>(event).not_finite.empty());
  CHECK(news<RankStep>(event).gradient_norm == 2);
  event.mutable_step()->set_not_finite("gradient_norm");
  CHECK(news<RankStep>(event).not_finite == "gradient norm");
  event.mutable_step()->set_not_finite("temperature\n");
  CHECK(news<RankStep>(event).not_finite.empty());
}

TEST_CASE("a hello names so many ranks and no more, and the tenant of all is none in particular") {
  wire::Hello hello;
  for (int i = 0; i < kMostRunning + 10; ++i) hello.add_running()->set_job("a");
  CHECK(node_back(hello, "a", 9).ranks.size() == static_cast<std::size_t>(kMostRunning));
  for (const std::uint64_t launch : {9, 10}) {
    hello.add_launches()->set_job("a");
    hello.mutable_launches()->rbegin()->set_launch(launch);
  }
  CHECK(node_back(hello, "a", 9).launch == 9);
  CHECK_FALSE(node_back(hello, "a", 9).ranks.front().of_job);
  hello.mutable_running(0)->set_variant("");
  hello.mutable_running(1)->set_variant("trial");
  CHECK(node_back(hello, "a", 9).ranks[0].of_job);
  CHECK_FALSE(node_back(hello, "a", 9).ranks[1].of_job);
  hello.set_tenant("*");
  CHECK(introduction(hello).tenant.empty());
  CHECK(introduction(hello).said_tenant == "*");
  hello.set_tenant("ana");
  CHECK(introduction(hello).tenant == "ana");
}

TEST_CASE("where a step went comes with its passes, and not from an agent of an earlier release") {
  wire::RankEvent event;
  event.mutable_passes()->set_epoch(3);
  event.mutable_passes()->set_busy_ns(5'000'000);
  CHECK(news<RankPasses>(event).ms == 5);
  CHECK_FALSE(news<RankPasses>(event).terms);
  wire::StepTerms& terms = *event.mutable_passes()->mutable_terms();
  terms.set_computation_ns(6'000'000);
  terms.set_collectives_ns(1'000'000);
  terms.set_gradients_ns(2'000'000);
  terms.set_transfers_ns(3'000'000);
  terms.set_idle_ns(4'000'000);
  CHECK(news<RankPasses>(event).terms == StepTerms{6, 1, 2, 3, 4});
  CHECK_FALSE(news<RankPasses>(event).parts.known());
  terms.set_own_ns(500'000);
  terms.set_bubble_ns(0);
  terms.set_launch_bound_ns(4'000'001);  // more than it is a part of
  CHECK(news<RankPasses>(event).parts == TermParts{0.5, 0.0, std::nullopt, std::nullopt});
  CHECK(news<RankPasses>(event).epoch == 3);
}

TEST_CASE("of a checkpoint's copy no figure is taken that nobody can have measured, and no text without end") {
  wire::RankEvent event;
  event.mutable_saved()->set_whole(true);
  CHECK_FALSE(news<RankSaved>(event).copy);
  event.mutable_saved()->set_restless(euros(1 << 20));
  CHECK(news<RankSaved>(event).restless.size() <= kLongestReason);
  wire::CopyPrice& copy = *event.mutable_saved()->mutable_copy();
  copy.set_files(-1);
  copy.set_bytes(std::numeric_limits<std::int64_t>::min());
  copy.set_seconds(std::numeric_limits<double>::quiet_NaN());
  copy.set_store(euros(1 << 20));
  copy.set_refused(euros(1 << 20));
  CopyPrice taken = *news<RankSaved>(event).copy;
  CHECK((taken.files == 0 && taken.bytes == 0 && taken.ms == 0));
  CHECK(taken.store.size() <= kLongestReason);
  CHECK(taken.refused.size() <= kLongestMessage);
  copy.set_seconds(1e300);
  CHECK(news<RankSaved>(event).copy->ms == 365 * 86'400e3);
  copy.set_seconds(1.5);
  CHECK(news<RankSaved>(event).copy->ms == 1500);
}
