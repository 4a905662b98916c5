#pragma once

// A job on GPUs in simulated time: hosts that hand work out, streams that take it in order, and ranks that wait for
// each other. It knows where its steps went, since it made them: nothing here is the agent's. What comes out are
// records as the injected library writes them.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "records/ring_reader.hpp"

namespace trimtab::agent::test {

enum class WorkKind : std::uint8_t { kComputation, kGraph, kCopy, kOwn, kLayout, kGradients, kSend, kReceive };

// A kernel, a graph's launch or a copy, as the host hands it out.
struct Work {
  WorkKind kind = WorkKind::kComputation;
  std::uint32_t stream = 7;
  double us = 0;       // once it runs; of a transfer and a shared collective, once all ends are there
  int waits_for = -1;  // another work of its rank, by its number there; -1 = the newest of its own stream alone
  int meeting = -1;    // with the other rank's work that has the same number; -1 = none
  int nodes = 1;       // of a graph whose kernels have records of their own
};

// What one rank's host does, in order.
class HostProgram {
 public:
  void think(double us) { add({Do::kThink, us}); }
  // The number of the work in its rank.
  int launch(const Work& work);
  void wait_for_device(double late_us = 0) { add({Do::kWait, late_us}); }  // and gets its processor back so late
  void wait_for_data(double us);
  void open(std::string_view name, std::int64_t payload = 1, bool aside = false);  // aside: on a thread of its own
  void close() { add({Do::kClose}); }

 private:
  friend class StepJob;
  enum class Do : std::uint8_t { kThink, kLaunch, kWait, kOpen, kClose };
  struct Action {
    Do what;
    double us = 0;
    Work work = {};
    std::string_view name = {};
    std::int64_t payload = 0;
    bool data = false;
    bool aside = false;
  };
  void add(const Action& action) { actions_.push_back(action); }
  std::vector<Action> actions_;
  int works_ = 0;
};

// Parts of a step's time; they add up to 1.
struct TrueShares {
  double computation = 0;
  double own = 0;
  double layout = 0;
  double gradients = 0;
  double transfers = 0;
  double bubble = 0;
  double copies = 0;
  double launch_bound = 0;
  double data = 0;
  double idle = 0;
};

struct Disorder {
  double clock_noise_us = 0.2;  // of each stamp of a device
  double lost_launches = 0;     // of the launches, this part has no record
  bool windows = false;         // some steps are not recorded whole, and a kWindow says so
  double buffer_us = 40'000;    // CUPTI hands over so much at a time, its records in no order
};

class StepJob {
 public:
  StepJob(std::vector<HostProgram> ranks, std::uint64_t seed, const Disorder& disorder = {});

  // Of the steps from `first` on, together.
  [[nodiscard]] TrueShares truth(std::size_t rank, std::size_t first) const;
  // In the order in which an agent reads them.
  [[nodiscard]] std::vector<RangeRecord> records(std::size_t rank);

 private:
  struct Ran : Work {
    double handed_out = 0;  // the call's begin
    double returned = 0;    // its end
    double begin = -1;      // -1 = not known yet
    double end = -1;
    int before = -1;  // of its stream
    std::uint32_t range = 0;
    std::uint32_t call = 0;  // that handed it out
  };
  struct Range {
    std::string_view name;
    std::int64_t payload = 0;
    double begin = 0;
    double end = 0;
    std::uint32_t id = 0;
    std::uint16_t depth = 0;
    bool aside = false;
  };
  struct Span {
    double begin = 0;
    double end = 0;
  };
  struct Rank {
    HostProgram program;
    std::size_t next = 0;
    double now = 1000;
    std::vector<Ran> works;
    std::map<std::uint32_t, int> newest;  // by stream
    std::vector<Range> open;
    std::vector<Range> ranges;  // that ended
    std::vector<Span> data;
    std::vector<Span> waits;
    std::vector<Span> steps;
    std::uint32_t ids = 0;
    std::uint32_t calls = 0;
  };
  void run();
  [[nodiscard]] bool act(std::size_t rank);
  void launch(std::size_t rank, const Work& work);
  void hand_out(std::size_t rank, const Ran& call);
  void close(Rank& rank);
  [[nodiscard]] bool find_begin(std::size_t rank, int work);
  [[nodiscard]] bool find_end(std::size_t rank, int work);
  [[nodiscard]] const Ran* other_end(std::size_t rank, const Ran& work);
  double TrueShares::*share_at(const Rank& rank, double at) const;
  double TrueShares::*idle_at(const Rank& rank, double at) const;
  void add_device_records(const Rank& rank, std::vector<std::pair<double, RangeRecord>>& into);
  [[nodiscard]] std::uint64_t stamp(double us, double noise_us);
  [[nodiscard]] static bool in_window(double us);

  std::vector<Rank> ranks_;
  std::map<int, std::vector<std::pair<std::size_t, int>>> meetings_;
  Random random_;
  Disorder disorder_;
};

}  // namespace trimtab::agent::test
