#pragma once

// Whether a link of this node is worse than it was, by what it says of itself: NVLinks, PCIe, and the ports of RDMA
// adapters. A state (up, lanes, speed) is compared with the best that it had, an error counter with its own past. Pure.

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "host/source.hpp"

namespace trimtab::host {

struct LinkFault {
  std::string link;     // "NVLink 3 of GPU 2"
  std::string reading;  // what of it: "up", "lanes", "out_of_sequence"
  std::string what;     // "is not active, and was"
  double confidence = 1;
  int device = -1;      // the GPU, by NVML's number; -1: none is known
  bool within = false;  // messages inside of this node go over it
  bool across = false;  // … messages to other nodes
};

// Callable from one thread.
//
// Readings are folded into windows. A state is a fault when the best of each of the last two windows is below the best
// that it ever had. Lanes and speed of PCIe count while the device works, since both may fall at rest. A counter is a
// fault when in each of the last five windows it has risen by more than in any window before in which as much was done,
// and by more for what was done, of which there must be thirty. Where nothing has changed, all orders of windows are
// equally likely, however errors are spread: five such windows come last by luck once in C(30 + 5, 5) = 324,632 times.
// That, times the number of counters, is what a confidence leaves.
class LinkWatch final {
 public:
  static constexpr Nanoseconds kWindow = std::chrono::seconds(10);
  static constexpr std::size_t kAgreeing = 5;
  static constexpr std::size_t kLeastBefore = 30;

  // A window has to hold several readings.
  explicit LinkWatch(Nanoseconds window = kWindow) : window_(window) {}

  // The latest samples of all sources; the same may come again.
  void add(const Samples& samples, Nanoseconds now);
  // As of the last whole window.
  [[nodiscard]] std::vector<LinkFault> faults() const;

 private:
  using Key = std::pair<std::string, std::string>;  // link and reading
  struct Window {
    double errors = 0;
    double done = 0;  // meanwhile, by who uses the link
  };
  struct State {
    LinkFault of;
    double best = 0;
    double now = -1;  // the best of the window that is open; -1 = not read
    std::deque<double> latest;
  };
  struct Counter {
    LinkFault of;
    std::string activity;
    double last = -1;
    Window open;
    bool read = false;          // in the open window
    bool idle = false;          // nothing was done in it
    std::deque<Window> before;  // the latest last
    std::deque<Window> latest;
    bool risen = false;
  };

  void take_state(LinkFault of, double value);
  void take_counter(LinkFault of, const std::string& activity, double value);
  void take(const Sample& sample);
  void take_activity(const Samples& samples);
  void close_window();
  [[nodiscard]] static std::vector<Window> comparable(const Counter& counter);
  static void judge(Counter& counter);
  [[nodiscard]] double done(const std::string& activity) const;

  Nanoseconds window_;
  Nanoseconds opened_{-1};
  std::map<std::string, double> busy_;   // "GPU 2", "GPUs", "network": what was done at the last reading
  std::map<std::string, double> bytes_;  // through each port, as last read
  std::map<Key, State> states_;
  std::map<Key, Counter> counters_;
};

// "NVLink 3 of GPU 2 is not active, and was".
[[nodiscard]] std::string to_text(const LinkFault& fault);

// Of one reading: PCIe links with fewer lanes, or slower ones, than device and slot have. Speeds of GPUs that rest are
// left out.
[[nodiscard]] std::vector<LinkFault> below_their_best(const Samples& samples);

}  // namespace trimtab::host
