#include "simulated_programs.hpp"

#include <utility>

namespace trimtab::test {

namespace {

class SimulatedRun final : public agent::RunningCommand {
 public:
  [[nodiscard]] std::weak_ptr<bool> alive() const { return alive_; }

 private:
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<agent::RunningCommand> SimulatedPrograms::run(std::function<void()> end) {
  auto one = std::make_unique<SimulatedRun>();
  time_.after(Nanoseconds(random_.between(0, 3'000'000'000)),
              [alive = one->alive(), act = agent_.act, end = std::move(end)] {
                if (!alive.expired()) act(end);
              });
  return one;
}

Result<std::unique_ptr<agent::RunningCommand>> SimulatedPrograms::describe(const Job& job,
                                                                           agent::CommandCallbacks callbacks) {
  return run([this, name = job.name, callbacks = std::move(callbacks)] {
    callbacks.done(agent::done_reply(agent_.runs(name)));
    agent_.ended(name);
  });
}

Result<std::unique_ptr<agent::RunningCommand>> SimulatedPrograms::benchmark(
    const agent::BenchmarkOrder& order, std::function<void(const std::vector<Cost>&)> measured,
    agent::CommandCallbacks callbacks) {
  return run([this, id = order.command, measured = std::move(measured), callbacks = std::move(callbacks)] {
    wire::CommandProgress progress;
    progress.set_id(id);
    callbacks.progress(progress);
    measured(agent_.measures());
    callbacks.done(agent::done_reply());
  });
}

}  // namespace trimtab::test
