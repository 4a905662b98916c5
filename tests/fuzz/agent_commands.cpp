// A frame of the coordinator as the agent takes it apart: every document in it, without the processes that it would
// start and the network that it would probe.

#include "base/clock.hpp"
#include "commands/benchmark_output.hpp"
#include "ranks/plan_relay.hpp"
#include "ranks/rank_command.hpp"
#include "records/range_fold.hpp"
#include "records/trace_recorder.hpp"
#include "schema/frame_bounds.hpp"
#include "schema/job.hpp"
#include "schema/nccl_choice.hpp"
#include "schema/protocol_version.hpp"
#include "schema/target.hpp"
#include "target.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

void expand_all(const Job& job) {
  RankLaunch launch;
  launch.plan_path = "/plan.json";
  for (const auto* command : {&job.describe, &job.benchmark, &job.train, &job.submit}) {
    (void)fuzz::judge(expand(*command, placeholders(job, launch)), fuzz::Repeats::kAll);
  }
  (void)rank_environment({{"PATH", "/bin"}}, job, launch, {"/socket", "/inject", "/kill", "n0"});
}

void follow_plan(const Job& job, const std::string& plan_json) {
  const auto plan = parse_plan(plan_json, "plan");
  const auto model = parse_model(job.model_json, "model");
  if (!fuzz::judge(plan) || !fuzz::judge(model)) return;
  (void)fold_context(*model, *plan, 0);
  if (!job.target.empty()) (void)fuzz::judge(export_plan(*plan, *model, job.target));
}

void launch(const wire::Launch& asked) {
  const auto job = parse_job(asked.job_json(), "job");
  if (!fuzz::judge(job)) return;
  expand_all(*job);
  follow_plan(*job, asked.plan_json());
  if (!asked.nccl_table().empty()) (void)fuzz::judge(nccl_table_id(asked.nccl_table()));
}

void command(const wire::Command& asked) {
  if (asked.has_launch()) launch(asked.launch());
  if (asked.has_describe()) (void)fuzz::judge(parse_job(asked.describe().job_json(), "job"));
  if (!asked.has_benchmark()) return;
  (void)fuzz::judge(parse_job(asked.benchmark().job_json(), "job"));
  (void)fuzz::judge(count_items(asked.benchmark().requests_json()));
}

// Twice proposed, committed, and told to a rank that comes back.
void relay(const wire::PlanPropose& asked) {
  PlanRelay relay;
  (void)relay.propose(asked.job(), asked.epoch(), asked.plan_json(), asked.incumbent());
  (void)relay.propose(asked.job(), asked.epoch(), asked.plan_json(), !asked.incumbent());
  (void)relay.commit(asked.job(), asked.epoch(), static_cast<std::int64_t>(asked.epoch()));
  (void)relay.missed(asked.job(), asked.epoch());
  (void)relay.cancel_trials();
}

void trace(const wire::TraceStart& asked) {
  ManualClock clock;
  const std::vector<TraceRecorder::Ring> rings{{1, {"job", "", 0}, 50, false, {RangeRecord{}}}};
  TraceRecorder recorder({[](const wire::FromAgent&) { return true; }, [&](const std::string&) { return rings; },
                          [](net::LocalPeerId, std::uint64_t) {}, clock, "n0"});
  recorder.start(asked);
  RangeRecord record;
  record.begin_ns = record.end_ns = static_cast<std::uint64_t>(clock.wall().count());
  recorder.records(1, std::span(&record, 1));
  recorder.tick();
  recorder.stop(asked.id());
  recorder.tick();
}

void welcome(const wire::Welcome& asked) {
  const ProtocolVersions theirs{asked.protocol_version(), asked.protocol_version()};
  (void)fuzz::judge(common_version({"this agent", "1", kSpokenVersions}, {"the coordinator", asked.release(), theirs}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!check_to_agent({reinterpret_cast<const char*>(data), size}).ok()) return 0;
  wire::ToAgent message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  if (message.body_case() != wire::ToAgent::BODY_NOT_SET) fuzz::understood();
  if (message.has_welcome()) welcome(message.welcome());
  if (message.has_command()) command(message.command());
  if (message.has_plan_propose()) relay(message.plan_propose());
  if (message.has_trace_start()) trace(message.trace_start());
  return 0;
}
