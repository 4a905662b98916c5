#include "fake_agent.hpp"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "hello_message.hpp"
#include "schema/fingerprint.hpp"
#include "schema/job.hpp"
#include "schema/statistics.hpp"

namespace trimtab::coordinator {

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "trimtab-test-XXXXXX").string();
  path_ = ::mkdtemp(name.data()) != nullptr ? name : "";
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string fingerprint_json() {
  Fingerprint fingerprint;
  fingerprint.device["cpu"] = "fake";
  return to_json(fingerprint);
}

FakeAgent::FakeAgent(net::EventLoop& loop, std::uint16_t port, std::string node, std::string instance,
                     net::LinkOptions options)
    : loop_(loop), node_(std::move(node)), instance_(std::move(instance)) {
  options.port = port;
  net::LinkHandlers handlers;
  handlers.opened = [this] {
    if (hello_on_open) send_hello();
  };
  handlers.message = [this](std::string_view frame) {
    wire::ToAgent to;
    if (to.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) message(to);
  };
  handlers.closed = [this](const std::string&) { ++closes; };
  link_ = std::make_unique<net::Link>(loop_, options, std::move(handlers), 1);
  heartbeat_ = loop_.every(std::chrono::seconds(1), [this] {
    wire::FromAgent from;
    from.mutable_heartbeat()->set_sent_ns(1);
    from.mutable_heartbeat()->set_kill_switch(kill_switch);
    if (welcomes > 0) send(from);
  });
}

void FakeAgent::send_hello() {
  wire::FromAgent from = test::hello_of(node_, instance_, fingerprint_json());
  wire::Hello& hello = *from.mutable_hello();
  hello.set_protocol_version(protocol_version);
  hello.set_release("9.9");
  hello.set_devices(2);
  hello.set_tenant(tenant);
  for (const std::uint32_t rank : ranks_) {
    wire::RunningRank& running = *hello.add_running();
    running.set_job(job_);
    running.set_rank(rank);
    running.set_launch(launch_);
    running.set_epoch(runs_.epoch());
  }
  send(from);
}

void FakeAgent::send_batch(std::uint64_t number, const std::string& key_json, int value, const std::string& job) {
  wire::FromAgent from;
  wire::CostBatch& batch = *from.mutable_cost_batch();
  batch.set_batch(number);
  batch.set_fingerprint_json(fingerprint_json());
  batch.set_job(job);
  wire::CostEntry& entry = *batch.add_entries();
  entry.set_key_json(key_json);
  Statistics statistics;
  statistics.add(value);
  statistics.add(value + 1);
  entry.set_statistics(statistics.encode());
  entry.set_source("active");
  send(from);
}

void FakeAgent::message(const wire::ToAgent& to) {
  if (to.has_welcome()) ++welcomes;
  if (to.has_refused()) refusals.push_back(to.refused().reason());
  if (to.has_batch_ack() && to.batch_ack().refused().empty()) acknowledged.insert(to.batch_ack().batch());
  if (!to.batch_ack().refused().empty()) refused_batches[to.batch_ack().batch()] = to.batch_ack().refused();
  if (to.has_command()) command(to.command());
  if (to.has_plan_propose()) {
    runs_.accept(to.plan_propose().epoch(), to.plan_propose().plan_json());
    for (const std::uint32_t rank : ranks_) {
      tell(rank, [&](wire::RankEvent& event) {
        event.mutable_plan_ack()->set_epoch(to.plan_propose().epoch());
        event.mutable_plan_ack()->set_step(step_);
      });
    }
  }
  if (to.has_plan_commit()) runs_.commit(to.plan_commit().epoch(), to.plan_commit().step());
  if (to.has_plan_cancel()) runs_.cancel(to.plan_cancel().epoch());
  if (to.has_probe_begin()) {
    wire::FromAgent from;
    from.mutable_probe_report()->set_id(to.probe_begin().id());
    from.mutable_probe_report()->set_error("a fake has no hardware");
    send(from);
  }
  if (to.has_stop_job()) last_step_ = std::min(last_step_, to.stop_job().step());
}

void FakeAgent::command(const wire::Command& wanted) {
  wire::FromAgent from;
  from.mutable_command_done()->set_id(wanted.id());
  from.mutable_command_done()->set_ok(true);
  const bool is_new = command_ids.insert(wanted.id()).second;
  if (wanted.has_describe()) {
    commands.push_back("describe");
    from.mutable_command_done()->set_output(model_json);
  } else if (wanted.has_benchmark()) {
    commands.push_back("benchmark");
    if (on_benchmark) on_benchmark(wanted.benchmark());
  } else if (wanted.has_launch()) {
    commands.push_back("launch " + wanted.launch().variant());
    if (is_new) launch(wanted.launch());
  } else if (wanted.has_kill()) {
    commands.push_back("kill");
    ranks_.clear();
    step_timer_.cancel();
  }
  send(from);
}

void FakeAgent::launch(const wire::Launch& wanted) {
  const auto job = parse_job(wanted.job_json(), "launch");
  job_ = job.ok() ? job->name : "?";
  variant_ = wanted.variant();
  ranks_.assign(wanted.ranks().begin(), wanted.ranks().end());
  launch_ = wanted.launch();
  runs_ = {wanted.epoch(), wanted.plan_json()};
  if (wanted.fresh()) step_ = 0;
  last_step_ = wanted.steps() > 0 ? wanted.steps() : job.ok() ? job->steps : 0;
  step_timer_ = loop_.every(std::chrono::milliseconds(1), [this] { train_step(); });
}

void FakeAgent::tell(std::uint32_t rank, const std::function<void(wire::RankEvent&)>& fill) {
  wire::FromAgent from;
  wire::RankEvent& event = *from.mutable_rank_event();
  event.set_job(job_);
  event.set_rank(rank);
  event.set_launch(launch_);
  event.set_variant(variant_);
  fill(event);
  send(from);
}

void FakeAgent::end_ranks() {
  step_timer_.cancel();
  for (const std::uint32_t rank : std::exchange(ranks_, {})) {
    tell(rank, [&](wire::RankEvent& event) { event.mutable_bye()->set_step(step_); });
    tell(rank, [&](wire::RankEvent& event) { event.mutable_exited()->set_exit_code(0); });
  }
}

void FakeAgent::train_step() {
  if (step_ >= last_step_) return end_ranks();
  if (const auto epoch = trimtab::test::SimulatedRank::agreed({&runs_}, step_ + 1)) {
    runs_.enter(*epoch);
    for (const std::uint32_t rank : ranks_) {
      tell(rank, [&](wire::RankEvent& event) {
        event.mutable_plan_active()->set_epoch(*epoch);
        event.mutable_plan_active()->set_step(step_);
        event.mutable_plan_active()->set_switch_ns(1'000'000);
      });
    }
  }
  ++step_;
  // A little spread, so that intervals are not of no width.
  const double ms = step_ms(runs_.plan()) * (1 + 0.01 * static_cast<double>(step_ % 3));
  for (const std::uint32_t rank : ranks_) {
    tell(rank, [&](wire::RankEvent& event) {
      wire::Step& step = *event.mutable_step();
      step.set_step(step_);
      step.set_epoch(runs_.epoch());
      step.set_wall_ns(static_cast<std::int64_t>(ms * 1e6));
      step.set_loss(5.0 / static_cast<double>(step_));
      step.set_samples("s" + std::to_string(step_));
    });
  }
}

}  // namespace trimtab::coordinator
