#pragma once

// Looks at this node's hardware when the coordinator asks (ProbeBegin, ProbeLink, ProbeEnd): one probe at a time,
// within budgets, on threads of its own (probe_work.hpp; those that compute at the lowest priority), over the network
// that the job's ranks use. Loop thread only.

#include <list>

#include "host/link_watch.hpp"
#include "net/event_loop.hpp"
#include "probes/probe_work.hpp"

namespace trimtab::agent {

class HardwareProbe final {
 public:
  struct Surroundings {
    net::EventLoop& loop;
    const Clock& clock;
    std::string coordinator_host;
    // The job's ranks that run here.
    std::function<std::vector<NetworkRank>(const std::string& job)> ranks;
    // Of a GPU node; none where the CPUs are the devices.
    std::function<std::vector<DeviceSpeed>()> gpus;
    std::function<bool(const wire::FromAgent&)> send;
    LinkBudget link = {};
    CpuBudget cpu = {};
    InterfaceSource count = kernel_interface_bytes;
    std::shared_ptr<ProbeWork> work = nullptr;  // nothing: the machine's
    // Of this node's links.
    std::function<std::vector<host::LinkFault>()> faults = {};
  };
  explicit HardwareProbe(Surroundings surroundings);
  // Cancels what runs and waits for its threads, which notice at once, or after the piece of work that they are at.
  ~HardwareProbe();

  // Refused while another probe runs.
  void begin(const wire::ProbeBegin& wanted);
  void link(const wire::ProbeLink& wanted);
  void end(std::uint64_t id) {
    if (current_ && current_->id == id) stop();
  }
  // Nobody is there to hear of it.
  void link_closed() { stop(); }
  // Ends what is past its deadline.
  void tick() {
    if (current_ && surroundings_.clock.monotonic() >= current_->deadline) stop();
  }
  [[nodiscard]] bool running() const { return current_ != nullptr; }

 private:
  // What its threads share. They know nothing of the loop's side but this, which outlives them.
  struct Probe {
    std::uint64_t id = 0;
    std::string token;
    std::string interface;
    std::string towards;
    Nanoseconds deadline{0};
    LinkBudget link;
    CpuBudget cpu;
    const Clock& clock;
    std::atomic<bool> cancelled = false;
    // The loop's alone.
    std::vector<NetworkRank> ranks;
    std::vector<std::unique_ptr<ProbeThread>> threads;
    std::size_t running = 0;
    std::size_t unanswered = 0;  // parts of the first report that are not there yet
    bool measuring = false;      // a link
    wire::FromAgent report;

    explicit Probe(const Clock& of) : clock(of) {}
    [[nodiscard]] ProbeTerms terms() const { return {token, link, cpu, {clock, deadline, cancelled}}; }
  };
  using Work = std::function<void(Probe&)>;

  void run(Work work);
  void finished(const Probe* probe);
  // On the loop, unless the probe is over by then.
  void post(const Probe& probe, std::function<void(Probe&)> work);
  void probe_devices();
  void open_endpoint(RankNetwork network);
  void part_came(Probe& probe);
  void refuse(std::uint64_t id, const std::string& why) const;
  void stop();

  Surroundings surroundings_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what is posted to the loop may come after the end
  std::shared_ptr<Probe> current_;
  std::list<std::shared_ptr<Probe>> ending_;  // cancelled; their threads have not ended yet
};

}  // namespace trimtab::agent
