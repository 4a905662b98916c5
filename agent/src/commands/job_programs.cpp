#include "commands/job_programs.hpp"

#include <filesystem>

#include "commands/benchmark_output.hpp"
#include "commands/scratch.hpp"
#include "processes/captured_process.hpp"
#include "schema/api/printed_text.hpp"
#include "schema/printed_model.hpp"

namespace trimtab::agent {
namespace {

constexpr Nanoseconds kDescribeDeadline = std::chrono::minutes(2);
constexpr std::size_t kMaxOutput = 7U << 20;  // It travels in one frame of 8 MiB.

class DescribeRun final : public RunningCommand {
 public:
  explicit DescribeRun(CommandCallbacks callbacks) : callbacks_(std::move(callbacks)) {}

  Status start(net::EventLoop& loop, ProcessRequest request) {
    TRIMTAB_TRY(process_, CapturedProcess::start(loop, std::move(request), kDescribeDeadline,
                                                 {[this](std::string_view bytes) { keep(bytes); },
                                                  [this](const CaptureEnd& end) { ended(end); }}));
    return {};
  }

 private:
  void keep(std::string_view bytes) {
    too_long_ = too_long_ || output_.size() + bytes.size() > kMaxOutput;
    if (!too_long_) return static_cast<void>(output_.append(bytes));
    process_->kill();
  }

  void ended(const CaptureEnd& end) {
    wire::CommandDone reply = done_reply();
    auto printed = printed_model(output_);
    if (too_long_) {
      reply = failed_reply("the describe command printed more than " + std::to_string(kMaxOutput) + " bytes");
    } else if (end.timed_out) {
      reply = failed_reply("the describe command did not end within " + format_duration(kDescribeDeadline));
    } else if (!end.end.clean()) {
      reply = failed_reply("the describe command " + describe(end.end));
      reply.set_exit_code(static_cast<std::uint32_t>(end.end.exit_code));
    } else if (!printed.ok()) {
      reply = failed_reply("the describe command " + printed.error().message);
    } else {
      reply.set_output(std::move(printed).value());
    }
    if (!reply.ok() && !end.error_tail.empty())
      *reply.mutable_error() += std::string(api::kLastOutput) + end.error_tail;
    callbacks_.done(std::move(reply));
  }

  CommandCallbacks callbacks_;
  std::unique_ptr<CapturedProcess> process_;
  std::string output_;
  bool too_long_ = false;
};

constexpr std::size_t kErrorsNamed = 5;
constexpr std::string_view kFile = "file://";

std::string summary_of(const BenchmarkFold& fold) {
  std::string text;
  for (std::size_t i = 0; i < fold.errors().size() && i < kErrorsNamed; ++i) {
    const auto& error = fold.errors()[i];
    text += (text.empty() ? "" : "; ") + ("item " + std::to_string(error.item)) + " on rank " +
            std::to_string(error.rank) + ": " + error.message;
  }
  if (fold.errors().size() > kErrorsNamed) {
    text += "; and " + std::to_string(fold.errors().size() - kErrorsNamed) + " more";
  }
  if (fold.malformed() > 0) {
    text += (text.empty() ? "" : "; ") + std::to_string(fold.malformed()) +
            " lines were not understood, the first because " + fold.first_malformed();
  }
  return text;
}

class BenchmarkRun final : public RunningCommand {
 public:
  BenchmarkRun(BenchmarkOrder order, std::uint32_t items, std::function<void(const std::vector<Cost>&)> measured,
               CommandCallbacks callbacks)
      : order_(std::move(order)),
        fold_(items, static_cast<std::uint32_t>(order_.ranks.size())),
        measured_(std::move(measured)),
        callbacks_(std::move(callbacks)) {}

  Status start(net::EventLoop& loop, const Environment& base) {
    TRIMTAB_TRY_STATUS(write_file(requests_path(), order_.requests_json));
    RankLaunch launch;
    launch.node = order_.node;
    launch.rendezvous = order_.rendezvous;
    launch.requests_path = requests_path();
    launch.scratch = order_.scratch;
    launch.memory_limit = order_.memory_limit;
    launch.steps = order_.job.steps;
    for (const auto rank : order_.ranks) {
      launch.rank = rank;
      TRIMTAB_TRY_STATUS(start_rank(loop, base, launch));
      ++launch.local_rank;
    }
    return {};
  }

 private:
  struct RankRun {
    std::unique_ptr<CapturedProcess> process;
    LineCutter lines;
  };

  [[nodiscard]] std::string requests_path() const {
    return order_.scratch + "/requests-" + std::to_string(order_.command) + ".json";
  }

  Status start_rank(net::EventLoop& loop, const Environment& base, const RankLaunch& launch) {
    ProcessRequest request;
    TRIMTAB_TRY(request.arguments, expand(order_.job.benchmark, placeholders(order_.job, launch)));
    request.environment = command_environment(base, order_.job);
    request.environment["TRIMTAB_LOCAL_RANK"] = std::to_string(launch.local_rank);
    request.working_directory = order_.job.working_directory;
    const auto rank = launch.rank;
    CapturedProcess::Handlers handlers{[this, rank](std::string_view bytes) { read(rank, bytes); },
                                       [this, rank](const CaptureEnd& end) { ended(rank, end); }};
    TRIMTAB_TRY(runs_[rank].process,
                CapturedProcess::start(loop, std::move(request), order_.deadline, std::move(handlers)));
    ++running_;
    return {};
  }

  void read(std::uint32_t rank, std::string_view bytes) {
    runs_.at(rank).lines.add(bytes, [&](std::string_view line) { fold_.line(rank, line); });
    if (fold_.items_done() == reported_) return;
    reported_ = fold_.items_done();
    wire::CommandProgress progress;
    progress.set_id(order_.command);
    progress.set_done(reported_);
    progress.set_total(fold_.items());
    progress.set_what("benchmark");
    callbacks_.progress(progress);
  }

  void ended(std::uint32_t rank, const CaptureEnd& end) {
    runs_.at(rank).lines.finish([&](std::string_view line) { fold_.line(rank, line); });
    --running_;
    if (!end.end.clean() && failure_.empty()) {
      failure_ = "rank " + std::to_string(rank) + " of the benchmark command " +
                 (end.timed_out ? "did not end within " + format_duration(order_.deadline) : describe(end.end));
      if (!end.error_tail.empty()) failure_ += std::string(api::kLastOutput) + end.error_tail;
      exit_code_ = static_cast<std::uint32_t>(end.end.exit_code);
      killed_ = end.end.signal != 0 && !end.timed_out;
      if (!killed_ && !end.timed_out) name_killed_rank();
      // The others wait for it in a collective, and would for long.
      for (const auto& [other, run] : runs_) run.process->kill();
    }
    if (running_ == 0) finish();
  }

  // A rank that exits because another one was killed may be heard of first: that other one is the cause.
  void name_killed_rank() {
    for (const auto& [rank, run] : runs_) {
      const std::int32_t signal = run.process->ended_by();
      if (signal == 0) continue;
      killed_ = true;
      failure_ = "rank " + std::to_string(rank) + " of the benchmark command " +
                 agent::describe(ProcessEnd{true, 0, signal}) + ", and then " + failure_;
      return;
    }
  }

  void finish() {
    // What was measured before a failure is measured all the same.
    const auto costs = fold_.costs();
    measured_(costs);
    wire::CommandDone reply;
    reply.set_ok(failure_.empty());
    reply.set_exit_code(exit_code_);
    reply.set_killed(killed_);
    const std::string items = summary_of(fold_);
    reply.set_error(failure_ + (failure_.empty() || items.empty() ? "" : "; ") + items);
    reply.set_output(std::to_string(costs.size()) + " costs of " + std::to_string(fold_.items()) + " items");
    std::error_code ignored;
    std::filesystem::remove(requests_path(), ignored);
    if (order_.rendezvous.starts_with(kFile)) std::filesystem::remove(order_.rendezvous.substr(kFile.size()), ignored);
    callbacks_.done(std::move(reply));
  }

  BenchmarkOrder order_;
  BenchmarkFold fold_;
  std::function<void(const std::vector<Cost>&)> measured_;
  CommandCallbacks callbacks_;
  std::map<std::uint32_t, RankRun> runs_;
  std::size_t running_ = 0;
  std::uint32_t reported_ = 0;
  std::string failure_;
  std::uint32_t exit_code_ = 0;
  bool killed_ = false;
};

class SystemJobPrograms final : public JobPrograms {
 public:
  SystemJobPrograms(net::EventLoop& loop, Environment environment)
      : loop_(loop), environment_(std::move(environment)) {}

  [[nodiscard]] Result<std::unique_ptr<RunningCommand>> describe(const Job& job, CommandCallbacks callbacks) override {
    if (job.describe.empty()) return bad_input("job " + job.name + " has no describe command, and no model either");
    ProcessRequest request;
    TRIMTAB_TRY(request.arguments, expand(job.describe, {}));
    request.environment = command_environment(environment_, job);
    request.working_directory = job.working_directory;
    auto run = std::make_unique<DescribeRun>(std::move(callbacks));
    TRIMTAB_TRY_STATUS(run->start(loop_, std::move(request)));
    return std::unique_ptr<RunningCommand>(std::move(run));
  }
  [[nodiscard]] Result<std::unique_ptr<RunningCommand>> benchmark(
      const BenchmarkOrder& order, std::function<void(const std::vector<Cost>&)> measured,
      CommandCallbacks callbacks) override {
    if (order.job.benchmark.empty()) return bad_input("job " + order.job.name + " has no benchmark command");
    if (order.ranks.empty()) return bad_input("a benchmark needs at least one rank");
    TRIMTAB_TRY(const auto items, count_items(order.requests_json));
    auto run = std::make_unique<BenchmarkRun>(order, items, std::move(measured), std::move(callbacks));
    TRIMTAB_TRY_STATUS(run->start(loop_, environment_));
    return std::unique_ptr<RunningCommand>(std::move(run));
  }

 private:
  net::EventLoop& loop_;
  Environment environment_;
};

}  // namespace

std::shared_ptr<JobPrograms> system_job_programs(net::EventLoop& loop, Environment environment) {
  return std::make_shared<SystemJobPrograms>(loop, std::move(environment));
}

}  // namespace trimtab::agent
