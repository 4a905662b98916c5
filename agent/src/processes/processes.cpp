#include "processes/processes.hpp"

namespace trimtab::agent {

namespace {

class SystemChild final : public HeldChild {
 public:
  explicit SystemChild(HeldProcess process) : process_(std::move(process)) {}
  [[nodiscard]] pid_t pid() const override { return process_.pid(); }
  [[nodiscard]] std::uint64_t start_time() const override { return process_.start_time(); }
  [[nodiscard]] Status release() override { return process_.release(); }

 private:
  HeldProcess process_;
};

class SystemProcesses final : public Processes {
 public:
  explicit SystemProcesses(net::EventLoop& loop) : loop_(loop) {}
  [[nodiscard]] Result<std::unique_ptr<HeldChild>> fork(const ProcessRequest& request) override {
    TRIMTAB_TRY(auto held, HeldProcess::fork(request));
    return std::unique_ptr<HeldChild>(std::make_unique<SystemChild>(std::move(held)));
  }
  [[nodiscard]] Result<std::unique_ptr<WatchedProcess>> watch(pid_t pid,
                                                              std::function<void(const ProcessEnd&)> ended) override {
    TRIMTAB_TRY(auto watched, ProcessWatch::start(loop_, pid, std::move(ended)));
    return std::unique_ptr<WatchedProcess>(std::move(watched));
  }
  [[nodiscard]] std::optional<ProcessStat> stat(pid_t pid) const override { return process_stat(pid); }
  [[nodiscard]] bool belongs_to(pid_t pid, pid_t ancestor) const override { return agent::belongs_to(pid, ancestor); }

 private:
  net::EventLoop& loop_;
};

}  // namespace

bool Processes::is_alive(pid_t pid, std::uint64_t start_time) const {
  const auto found = stat(pid);
  return found && found->start_time == start_time && !found->ended();
}

std::unique_ptr<Processes> system_processes(net::EventLoop& loop) {
  return std::make_unique<SystemProcesses>(loop);
}

}  // namespace trimtab::agent
