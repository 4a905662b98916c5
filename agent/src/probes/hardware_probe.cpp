#include "probes/hardware_probe.hpp"

#include <spdlog/spdlog.h>

#include <cmath>

#include "probes/link_conversation.hpp"

namespace trimtab::agent {

namespace {

constexpr double kLongestSeconds = 120;
constexpr std::size_t kMostNetworks = 64;

void put(const std::vector<DeviceSpeed>& speeds, wire::ProbeReport& report) {
  for (const DeviceSpeed& one : speeds) {
    wire::ProbedDevice& device = *report.add_devices();
    device.set_device(static_cast<std::uint32_t>(one.device));
    device.set_work(one.work);
    device.set_ms(one.ms);
    device.set_spread(one.spread);
    device.set_remark(one.remark);
  }
}

void put(const std::vector<host::LinkFault>& faults, wire::ProbeReport& report) {
  for (const host::LinkFault& one : faults) {
    wire::LinkFault& fault = *report.add_faults();
    fault.set_link(one.link);
    fault.set_reading(one.reading);
    fault.set_what(one.what);
    fault.set_confidence(one.confidence);
    fault.set_device(one.device);
    fault.set_within(one.within);
    fault.set_across(one.across);
  }
}

wire::FromAgent link_report(std::uint64_t id, std::uint32_t link, const Result<LinkSpeed>& speed) {
  wire::FromAgent message;
  wire::ProbeReport& report = *message.mutable_probe_report();
  report.set_id(id);
  wire::ProbedLink& told = *report.mutable_link();
  told.set_link(link);
  if (!speed.ok()) {
    report.set_error(speed.error().message);
    return message;
  }
  told.set_bytes_per_s(speed->bytes_per_s);
  told.set_spread(speed->spread);
  told.set_round_trip_us(std::chrono::duration<double, std::micro>(speed->round_trip).count());
  told.set_bytes(static_cast<std::uint64_t>(speed->moved));
  if (!speed->capacity) return message;
  wire::LinkCapacity& capacity = *told.mutable_capacity();
  capacity.set_bytes_per_s(speed->capacity->bytes_per_s);
  capacity.set_spread(speed->capacity->spread);
  capacity.set_used(speed->capacity->used);
  return message;
}

}  // namespace

HardwareProbe::HardwareProbe(Surroundings surroundings) : surroundings_(std::move(surroundings)) {
  if (!surroundings_.work) surroundings_.work = system_probe_work(surroundings_.count);
}

HardwareProbe::~HardwareProbe() {
  *alive_ = false;
  stop();
  for (const auto& probe : ending_) probe->threads.clear();
}

void HardwareProbe::refuse(std::uint64_t id, const std::string& why) const {
  wire::FromAgent message;
  message.mutable_probe_report()->set_id(id);
  message.mutable_probe_report()->set_error(why);
  surroundings_.send(message);
}

void HardwareProbe::begin(const wire::ProbeBegin& wanted) {
  if (current_) return refuse(wanted.id(), "another probe of this node runs");
  if (wanted.token().size() != kProbeTokenBytes) {
    return refuse(wanted.id(), "a probe needs a token of " + std::to_string(kProbeTokenBytes) + " bytes, found " +
                                   std::to_string(wanted.token().size()));
  }
  if (!std::isfinite(wanted.deadline_s()) || wanted.deadline_s() <= 0) {
    return refuse(wanted.id(), "a probe needs a deadline");
  }
  current_ = std::make_shared<Probe>(surroundings_.clock);
  Probe& probe = *current_;
  probe.id = wanted.id();
  probe.token = wanted.token();
  probe.interface = wanted.interface();
  probe.towards = surroundings_.coordinator_host;
  probe.link = surroundings_.link;
  probe.cpu = surroundings_.cpu;
  probe.ranks = surroundings_.ranks(wanted.job());
  const std::chrono::duration<double> seconds(std::min(wanted.deadline_s(), kLongestSeconds));
  const auto patience = std::chrono::duration_cast<Nanoseconds>(seconds);
  probe.deadline = surroundings_.clock.monotonic() + patience;
  probe.report.mutable_probe_report()->set_id(probe.id);
  if (surroundings_.faults) put(surroundings_.faults(), *probe.report.mutable_probe_report());
  std::vector<RankNetwork> networks = surroundings_.work->networks(probe.ranks);
  if (networks.size() > kMostNetworks) networks.resize(kMostNetworks);
  probe.unanswered = networks.size() + 1;
  for (RankNetwork& network : networks) open_endpoint(std::move(network));
  if (!wanted.devices()) return part_came(probe);
  probe_devices();
}

void HardwareProbe::probe_devices() {
  if (surroundings_.gpus) {
    put(surroundings_.gpus(), *current_->report.mutable_probe_report());
    return part_came(*current_);
  }
  run([this](Probe& probe) {
    std::vector<DeviceSpeed> speeds = surroundings_.work->cpus(probe.terms());
    post(probe, [this, speeds = std::move(speeds)](Probe& of) {
      put(speeds, *of.report.mutable_probe_report());
      part_came(of);
    });
  });
}

void HardwareProbe::open_endpoint(RankNetwork network) {
  run([this, network = std::move(network)](Probe& probe) {
    const auto listening = surroundings_.work->listen(network, probe.interface, probe.towards);
    post(probe, [this, network, error = listening.ok() ? "" : listening.error().message,
                 address = listening.ok() ? listening->address : "",
                 port = listening.ok() ? listening->port : std::uint16_t{0}](Probe& of) {
      wire::ProbeReport& report = *of.report.mutable_probe_report();
      if (error.empty()) {
        wire::ProbeEndpoint& endpoint = *report.add_endpoints();
        for (const NetworkRank& rank : network.ranks) endpoint.add_ranks(rank.rank);
        endpoint.set_address(address);
        endpoint.set_port(port);
        endpoint.set_counts(true);
      } else {
        spdlog::warn("links of this node are not probed: {}", error);
        report.set_error(error);
      }
      part_came(of);
    });
    if (listening.ok()) listening->serve(probe.terms());
  });
}

// The first report goes when all of its parts are there.
void HardwareProbe::part_came(Probe& probe) {
  if (--probe.unanswered > 0) return;
  surroundings_.send(probe.report);
}

void HardwareProbe::link(const wire::ProbeLink& wanted) {
  const Result<LinkSpeed> none = unavailable("no such probe runs on this node");
  if (!current_ || current_->id != wanted.id()) {
    surroundings_.send(link_report(wanted.id(), wanted.link(), none));
    return;
  }
  const auto rank = std::find_if(current_->ranks.begin(), current_->ranks.end(),
                                 [&](const NetworkRank& one) { return one.rank == wanted.from_rank(); });
  const bool known = rank != current_->ranks.end();
  if (!known || current_->measuring || wanted.port() == 0 || wanted.port() > 65'535) {
    const std::string why = !known ? "rank " + std::to_string(wanted.from_rank()) + " does not run on this node"
                            : current_->measuring ? "another link of this node is being probed"
                                                  : "a link's probe needs a port";
    surroundings_.send(link_report(wanted.id(), wanted.link(), unavailable(why)));
    return;
  }
  current_->measuring = true;
  run([this, wanted, pid = rank->pid](Probe& probe) {
    const auto speed = surroundings_.work->measure(pid, wanted, probe.terms());
    post(probe, [this, message = link_report(wanted.id(), wanted.link(), speed)](Probe& of) {
      of.measuring = false;
      surroundings_.send(message);
    });
  });
}

void HardwareProbe::run(Work work) {
  Probe& probe = *current_;
  ++probe.running;
  probe.threads.push_back(surroundings_.work->start([this, shared = current_, work = std::move(work)] {
    work(*shared);
    surroundings_.loop.post([this, alive = alive_, raw = shared.get()] {
      if (*alive) finished(raw);
    });
  }));
}

void HardwareProbe::post(const Probe& probe, std::function<void(Probe&)> work) {
  surroundings_.loop.post([this, alive = alive_, raw = &probe, work = std::move(work)] {
    if (*alive && current_.get() == raw) work(*current_);
  });
}

void HardwareProbe::finished(const Probe* probe) {
  const auto of = [probe](const std::shared_ptr<Probe>& one) { return one.get() == probe; };
  if (current_.get() == probe) {
    --current_->running;
    return;
  }
  const auto found = std::find_if(ending_.begin(), ending_.end(), of);
  if (found == ending_.end() || --(*found)->running > 0) return;
  (*found)->threads.clear();
  ending_.erase(found);
}

void HardwareProbe::stop() {
  if (!current_) return;
  current_->cancelled = true;
  const std::shared_ptr<Probe> probe = std::exchange(current_, nullptr);
  if (probe->running == 0) {
    probe->threads.clear();
    return;
  }
  ending_.push_back(probe);
}

}  // namespace trimtab::agent
