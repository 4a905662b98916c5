#include "commands/describe_run.hpp"

#include <utility>

#include "processes/captured_process.hpp"

namespace trimtab::agent {

namespace {

constexpr std::size_t kMaxOutput = 7U << 20;  // It travels in one frame of 8 MiB.

class DescribeRun final : public RunningCommand {
 public:
  explicit DescribeRun(CommandCallbacks callbacks, Nanoseconds deadline)
      : callbacks_(std::move(callbacks)), deadline_(deadline) {}

  Status start(net::EventLoop& loop, ProcessRequest request) {
    TRIMTAB_TRY(process_, CapturedProcess::start(loop, std::move(request), deadline_,
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
    CommandReply reply{true, "", "", static_cast<std::uint32_t>(end.end.exit_code)};
    if (too_long_) {
      reply = failed_reply("the describe command printed more than " + std::to_string(kMaxOutput) + " bytes");
    } else if (end.timed_out) {
      reply = failed_reply("the describe command did not end within " + format_duration(deadline_));
    } else if (!end.end.clean()) {
      reply = failed_reply("the describe command " + describe(end.end));
      reply.exit_code = static_cast<std::uint32_t>(end.end.exit_code);
    } else {
      reply.output = std::move(output_);
    }
    if (!reply.ok && !end.error_tail.empty()) reply.error += "; its last output: " + end.error_tail;
    callbacks_.done(std::move(reply));
  }

  CommandCallbacks callbacks_;
  Nanoseconds deadline_;
  std::unique_ptr<CapturedProcess> process_;
  std::string output_;
  bool too_long_ = false;
};

}  // namespace

Result<std::unique_ptr<RunningCommand>> start_describe(net::EventLoop& loop, const Job& job, Environment base,
                                                       Nanoseconds deadline, CommandCallbacks callbacks) {
  if (job.describe.empty()) return bad_input("job " + job.name + " has no describe command, and no model either");
  TRIMTAB_TRY(auto arguments, expand(job.describe, {}));
  ProcessRequest request;
  request.arguments = std::move(arguments);
  request.environment = command_environment(std::move(base), job);
  request.working_directory = job.working_directory;
  auto run = std::make_unique<DescribeRun>(std::move(callbacks), deadline);
  TRIMTAB_TRY_STATUS(run->start(loop, std::move(request)));
  return std::unique_ptr<RunningCommand>(std::move(run));
}

}  // namespace trimtab::agent
