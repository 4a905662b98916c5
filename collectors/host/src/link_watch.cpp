#include "host/link_watch.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/numbers.hpp"
#include "sources/sources.hpp"

namespace trimtab::host {

namespace {

constexpr std::size_t kLowWindows = 2;  // of a state
constexpr std::size_t kStillRisen = 3;  // of the latest: fewer, and it is over
constexpr std::size_t kMostBefore = 120;
constexpr double kAsMuchDone = 0.25;  // windows in which less was done had less occasion for errors
constexpr double kReadState = 0.999;  // a link may be in the middle of becoming what it was
constexpr double kWorks = 0.5;        // of its time, who keeps a link awake
constexpr const char* kNetwork = "network";
constexpr const char* kAllGpus = "GPUs";

// Those that grow because a link is bad and not because much is sent.
constexpr std::array<std::string_view, 9> kPortErrors{"port_rcv_errors",
                                                      "symbol_error",
                                                      "link_error_recovery",
                                                      "link_downed",
                                                      "local_link_integrity_errors",
                                                      "out_of_sequence",
                                                      "local_ack_timeout_err",
                                                      "packet_seq_err",
                                                      "rx_icrc_encapsulated"};

std::string label(const Sample& sample, std::string_view name) {
  const auto found = std::ranges::find_if(sample.labels, [name](const auto& one) { return one.first == name; });
  return found == sample.labels.end() ? "" : found->second;
}

std::string gpu_of(const Sample& sample) {
  return "GPU " + label(sample, "device");
}

LinkFault of_gpu(std::string link, std::string reading, const Sample& sample, bool within, bool across) {
  LinkFault of{std::move(link), std::move(reading), "", 1, -1, within, across};
  const std::string device = label(sample, "device");
  (void)std::from_chars(device.data(), device.data() + device.size(), of.device);
  return of;
}

LinkFault of_nvlink(const Sample& sample, std::string reading) {
  return of_gpu("NVLink " + label(sample, "link") + " of " + gpu_of(sample), std::move(reading), sample, true, false);
}

// Between GPUs with NVLinks it carries what leaves the node.
LinkFault of_pcie(const Sample& sample, std::string reading, bool within) {
  return of_gpu("PCIe of " + gpu_of(sample), std::move(reading), sample, within, true);
}

LinkFault of_card(const Sample& sample, std::string reading, bool within) {
  const std::string name = label(sample, "name");
  return {"PCIe of " + (name.empty() ? "" : name + " at ") + label(sample, "address"),
          std::move(reading),
          "",
          1,
          -1,
          within,
          true};
}

LinkFault of_port(const Sample& sample, std::string reading) {
  return {
      "port " + label(sample, "port") + " of " + label(sample, "device"), std::move(reading), "", 1, -1, false, true};
}

bool is_of_network(const Sample& sample) {
  return label(sample, "kind") == kNetwork;
}

std::string amount(const std::string& reading, double value) {
  if (reading == "lanes") return format_number(value) + " lanes";
  if (reading == "generation") return "generation " + format_number(value);
  return reading == "rate" ? format_number(value * 8e-9) + " Gb/s" : format_number(value * 1e-9) + " GT/s";
}

double rate_of(double errors, double done) {
  return done > 0 ? errors / done : errors;
}

// Orders of `before + agreeing` windows in which given ones are the last.
double orders(std::size_t before, std::size_t agreeing) {
  double ways = 1;
  for (std::size_t i = 1; i <= agreeing; ++i) ways *= static_cast<double>(before + i) / static_cast<double>(i);
  return ways;
}

}  // namespace

std::string to_text(const LinkFault& fault) {
  return fault.link + " " + fault.what;
}

void LinkWatch::add(const Samples& samples, Nanoseconds now) {
  if (opened_.count() < 0) opened_ = now;
  if (now - opened_ >= window_) {
    close_window();
    opened_ = now;
  }
  take_activity(samples);
  for (const Sample& sample : samples) take(sample);
}

// How busy GPUs are, and what went through the network's ports since the last reading.
void LinkWatch::take_activity(const Samples& samples) {
  busy_.clear();
  double gpus = 0;
  std::map<std::string, double> bytes;
  for (const Sample& sample : samples) {
    if (sample.measure == &kDeviceBusy && label(sample, "unit") == "sm") {
      busy_[gpu_of(sample)] = sample.value;
      busy_[kAllGpus] += sample.value;
      ++gpus;
    }
    if (sample.measure != &kInfinibandBytes && sample.measure != &kNetworkBytes) continue;
    std::string counter;
    for (const auto& [name, value] : sample.labels) counter += value + " ";
    bytes[counter] = sample.value;
  }
  if (gpus > 0) busy_[kAllGpus] /= gpus;
  for (const auto& [counter, value] : bytes) {
    const auto last = bytes_.find(counter);
    busy_[kNetwork] += last == bytes_.end() ? 0 : std::max(value - last->second, 0.0);
  }
  bytes_ = std::move(bytes);
}

double LinkWatch::done(const std::string& activity) const {
  const auto known = busy_.find(activity);
  return known == busy_.end() ? -1 : known->second;
}

void LinkWatch::take(const Sample& sample) {
  const Measure* const of = sample.measure;
  const auto no_nvlinks = [this, &sample] {
    const std::string end = " of " + gpu_of(sample);
    return std::ranges::none_of(states_, [&end](const auto& one) {
      return one.first.first.starts_with("NVLink") && one.first.first.ends_with(end);
    });
  };
  if (of == &kInfinibandUp) take_state(of_port(sample, "up"), sample.value);
  if (of == &kInfinibandRate) take_state(of_port(sample, "rate"), sample.value);
  if (of == &kInfinibandEvents) {
    const std::string event = label(sample, "event");
    const bool counts = std::ranges::find(kPortErrors, event) != kPortErrors.end();
    if (counts) take_counter(of_port(sample, event), kNetwork, sample.value);
  }
  if (of == &kDeviceNvLinkUp) take_state(of_nvlink(sample, "up"), sample.value);
  if (of == &kDeviceNvLinkErrors) take_counter(of_nvlink(sample, label(sample, "kind")), gpu_of(sample), sample.value);
  if (of == &kDevicePcieReplays) take_counter(of_pcie(sample, "replays", no_nvlinks()), gpu_of(sample), sample.value);
  const auto works = [this, &sample] { return done(gpu_of(sample)) >= kWorks; };
  if (of == &kDevicePcieGeneration && works()) take_state(of_pcie(sample, "generation", no_nvlinks()), sample.value);
  if (of == &kDevicePcieWidth && works()) take_state(of_pcie(sample, "lanes", no_nvlinks()), sample.value);
  const auto sends = [this, &sample] { return is_of_network(sample) && done(kNetwork) > 0; };
  if (of == &kPciLanes && sends()) take_state(of_card(sample, "lanes", false), sample.value);
  if (of == &kPciSpeed && sends()) take_state(of_card(sample, "speed", false), sample.value);
  if (of == &kPciErrors) {
    const bool network = is_of_network(sample);
    take_counter(of_card(sample, label(sample, "severity") + " errors", !network), network ? kNetwork : kAllGpus,
                 sample.value);
  }
}

void LinkWatch::take_state(LinkFault of, double value) {
  State& state = states_[{of.link, of.reading}];
  state.of = std::move(of);
  state.now = std::max(state.now, value);
}

void LinkWatch::take_counter(LinkFault of, const std::string& activity, double value) {
  Counter& counter = counters_[{of.link, of.reading}];
  counter.of = std::move(of);
  if (counter.last >= 0) {
    const double was_done = done(activity);
    counter.read = true;
    counter.open.errors += std::max(value - counter.last, 0.0);  // a reset counter has counted nothing
    counter.open.done += std::max(was_done, 0.0);
    counter.idle = was_done >= 0 && counter.open.done <= 0;
  }
  counter.last = value;
}

void LinkWatch::close_window() {
  for (auto& [key, state] : states_) {
    if (state.now < 0) continue;
    state.best = std::max(state.best, state.now);
    state.latest.push_back(std::exchange(state.now, -1));
    if (state.latest.size() > kLowWindows) state.latest.pop_front();
  }
  for (auto& [key, counter] : counters_) {
    const Window closed = std::exchange(counter.open, {});
    if (!std::exchange(counter.read, false) || counter.idle) continue;
    counter.latest.push_back(closed);
    if (counter.latest.size() <= kAgreeing) continue;
    if (!counter.risen) counter.before.push_back(counter.latest.front());
    counter.latest.pop_front();
    if (counter.before.size() > kMostBefore) counter.before.pop_front();
    judge(counter);
  }
}

std::vector<LinkWatch::Window> LinkWatch::comparable(const Counter& counter) {
  const double least = std::ranges::min_element(counter.latest, {}, &Window::done)->done * kAsMuchDone;
  std::vector<Window> before;
  std::ranges::copy_if(counter.before, std::back_inserter(before),
                       [least](const Window& one) { return one.done >= least; });
  return before;
}

void LinkWatch::judge(Counter& counter) {
  double errors = 0;
  double rate = 0;
  const std::vector<Window> before = comparable(counter);
  for (const Window& one : before) {
    errors = std::max(errors, one.errors);
    rate = std::max(rate, rate_of(one.errors, one.done));
  }
  const auto above = std::ranges::count_if(
      counter.latest, [&](const Window& one) { return one.errors > errors && rate_of(one.errors, one.done) > rate; });
  const std::size_t needed = counter.risen ? kStillRisen : kAgreeing;
  counter.risen = before.size() >= kLeastBefore && std::cmp_greater_equal(above, needed);
}

std::vector<LinkFault> LinkWatch::faults() const {
  std::vector<LinkFault> faults;
  for (const auto& [key, state] : states_) {
    const auto low = [&state = state](double value) { return value < state.best; };
    if (state.latest.size() < kLowWindows || !std::ranges::all_of(state.latest, low)) continue;
    LinkFault fault = state.of;
    fault.confidence = kReadState;
    const std::string& reading = fault.reading;
    fault.what = reading == "up" ? "is not active, and was"
                                 : "runs at " + amount(reading, state.latest.back()) + ", and ran at " +
                                       amount(reading, state.best);
    faults.push_back(std::move(fault));
  }
  for (const auto& [key, counter] : counters_) {
    if (!counter.risen) continue;
    const std::vector<Window> before = comparable(counter);
    const double minutes = std::chrono::duration<double, std::ratio<60>>(window_).count();
    double now = 0;
    double most = 0;
    for (const Window& one : counter.latest) now += one.errors / (minutes * static_cast<double>(kAgreeing));
    for (const Window& one : before) most = std::max(most, one.errors / minutes);
    LinkFault fault = counter.of;
    fault.what = "counts " + format_number(now, 1) + " " + fault.reading + " a minute, and " + format_number(most, 1) +
                 " at most before";
    fault.confidence = 1 - static_cast<double>(counters_.size()) / orders(before.size(), kAgreeing);
    faults.push_back(std::move(fault));
  }
  return faults;
}

std::vector<LinkFault> below_their_best(const Samples& samples) {
  const auto most_of = [&samples](const Sample& now, const Measure& most) -> std::optional<double> {
    const auto found = std::ranges::find_if(
        samples, [&](const Sample& one) { return one.measure == &most && one.labels == now.labels; });
    return found == samples.end() ? std::nullopt : std::optional(found->value);
  };
  const auto works = [&samples](const std::string& device) {
    return std::ranges::any_of(samples, [&](const Sample& one) {
      return one.measure == &kDeviceBusy && label(one, "device") == device && label(one, "unit") == "sm" &&
             one.value >= kWorks;
    });
  };
  std::vector<LinkFault> below;
  const auto compare = [&](LinkFault fault, const Sample& now, const Measure& measure) {
    const auto most = most_of(now, measure);
    if (!most || now.value >= *most) return;
    fault.what = "runs at " + amount(fault.reading, now.value) + ", and could at " + amount(fault.reading, *most);
    below.push_back(std::move(fault));
  };
  for (const Sample& one : samples) {
    if (one.measure == &kDevicePcieWidth) compare(of_pcie(one, "lanes", true), one, kDevicePcieWidthMax);
    const bool tells = one.measure == &kDevicePcieGeneration && works(label(one, "device"));
    if (tells) compare(of_pcie(one, "generation", true), one, kDevicePcieGenerationMax);
    if (one.measure == &kPciLanes && is_of_network(one)) compare(of_card(one, "lanes", false), one, kPciLanesMax);
    if (one.measure == &kPciSpeed && is_of_network(one)) compare(of_card(one, "speed", false), one, kPciSpeedMax);
  }
  return below;
}

}  // namespace trimtab::host
