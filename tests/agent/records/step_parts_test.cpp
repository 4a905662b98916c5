// Where simulated steps went, as their records tell: within 2 % of a step of the truth, whatever the seed.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "../hand_made_ring.hpp"
#include "../kernel_records.hpp"
#include "records/rank_rings.hpp"
#include "simulated_step_job.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace trimtab::agent::test;

namespace {

constexpr double kAllowed = 0.02;
constexpr std::size_t kSteps = 40;
constexpr std::size_t kShown = 32;  // the latest, that the shares are of
constexpr std::int64_t kBytes = 8 << 20;
constexpr std::uint32_t kNcclStream = 20;
constexpr std::uint32_t kSends = 21;
constexpr std::uint32_t kReceives = 22;

using Job = std::vector<HostProgram>;

// A pass of so many kernels, with what the host thinks between them.
int pass(HostProgram& host, std::string_view name, int kernels, double us, double thinks_us, int waits_for = -1) {
  int last = -1;
  host.open(name);
  for (int i = 0; i < kernels; ++i) {
    host.think(thinks_us);
    last = host.launch({.us = us, .waits_for = i == 0 ? waits_for : -1});
  }
  host.close();
  return last;
}

void collective(HostProgram& host, WorkKind kind, double us, int waits_for, bool aside) {
  host.open("comm/all_reduce/2", kBytes, aside);
  host.launch({.kind = kind, .stream = kNcclStream, .us = us, .waits_for = waits_for});
  host.close();
}

// One rank's steps, each made by `step`, with the host's wait for the device at its end.
template <typename Step>
HostProgram steps(const Step& step) {
  HostProgram host;
  for (std::size_t s = 0; s < kSteps; ++s) {
    host.open("step", static_cast<std::int64_t>(s));
    step(host, s);
    host.wait_for_device();
    host.close();
  }
  return host;
}

Job launch_bound() {
  return {steps([](HostProgram& host, std::size_t) {
    pass(host, "op/a/forward", 60, 5, 9);
    pass(host, "op/a/backward", 60, 7, 9);
  })};
}

Job compute_bound() {
  return {steps([](HostProgram& host, std::size_t) {
    host.launch({.kind = WorkKind::kCopy, .stream = 9, .us = 60});
    pass(host, "op/a/forward", 20, 110, 3);
    pass(host, "op/a/backward", 20, 190, 3);
  })};
}

// Graphs of kernels, with a host that is slow between some of them.
Job graphs() {
  return {steps([](HostProgram& host, std::size_t) {
    for (const std::string_view name : {"op/a/forward", "op/a/backward"}) {
      host.open(name);
      for (int i = 0; i < 4; ++i) {
        host.think(i == 2 ? 2600 : 20);
        host.launch({.kind = WorkKind::kGraph, .us = 700});
      }
      host.close();
    }
  })};
}

// Graphs whose kernels have records of their own: small ones, with the device's own gaps between them.
Job graph_nodes() {
  return {steps([](HostProgram& host, std::size_t) {
    for (const std::string_view name : {"op/a/forward", "op/a/backward"}) {
      host.open(name);
      for (int i = 0; i < 4; ++i) host.launch({.us = 4, .nodes = 30});
      host.close();
    }
  })};
}

// Tensor-parallel sums inside of passes, a change of layout between them, gradients beside the backward pass and after.
Job overlapped() {
  return {steps([](HostProgram& host, std::size_t) {
    host.open("op/a/forward");
    for (int i = 0; i < 8; ++i) {
      const int before = host.launch({.us = 150});
      const int sum = host.launch({.kind = WorkKind::kOwn, .stream = kNcclStream, .us = 60, .waits_for = before});
      host.launch({.us = 90, .waits_for = sum});
    }
    host.close();
    const int forward = host.launch({.us = 20});
    host.open("comm/all_to_all/2", kBytes);
    const int moved = host.launch({.kind = WorkKind::kLayout, .stream = kNcclStream, .us = 300, .waits_for = forward});
    host.close();
    for (int i = 0; i < 4; ++i) {
      const int last = pass(host, "op/a/backward", 4, 130, 3, i == 0 ? moved : -1);
      collective(host, WorkKind::kGradients, 350, last, true);
    }
    collective(host, WorkKind::kGradients, 400, -1, false);
    host.open("optimizer");
    host.launch({.us = 200});
    host.close();
  })};
}

int transfer(HostProgram& host, bool sends, int meeting, int waits_for) {
  host.open(sends ? "transfer/send" : "transfer/recv", kBytes);
  const int work = host.launch({.kind = sends ? WorkKind::kSend : WorkKind::kReceive,
                                .stream = sends ? kSends : kReceives,
                                .us = 90,
                                .waits_for = waits_for,
                                .meeting = meeting});
  host.close();
  return work;
}

constexpr int kMicrobatches = 6;

struct Stage {
  HostProgram& host;
  int base;  // of the step's meetings
  double slower;
  bool first;
  void forward(int m) const {
    const int got = first ? -1 : transfer(host, false, base + 2 * m, -1);
    const int done = pass(host, "op/a/forward", 6, 70 * slower, 2, got);
    if (first) (void)transfer(host, true, base + 2 * m, done);
  }
  void backward(int m) const {
    const int got = first ? transfer(host, false, base + 2 * m + 1, -1) : -1;
    const int done = pass(host, "op/a/backward", 6, 130 * slower, 2, got);
    if (!first) (void)transfer(host, true, base + 2 * m + 1, done);
  }
};

// Two stages, one forward and one backward in turn, the second one slower.
Job bubble() {
  const auto stage = [](bool first, double slower) {
    return steps([=](HostProgram& host, std::size_t s) {
      const Stage one{host, static_cast<int>(s) * 2 * kMicrobatches, slower, first};
      const int ahead = first ? 1 : 0;
      for (int m = 0; m < ahead; ++m) one.forward(m);
      for (int m = 0; m < kMicrobatches; ++m) {
        if (m + ahead < kMicrobatches) one.forward(m + ahead);
        one.backward(m);
      }
    });
  };
  return {stage(true, 1), stage(false, 1.3)};
}

Job data_wait() {
  return {steps([](HostProgram& host, std::size_t s) {
    host.wait_for_data(s % 4 == 0 ? 3000 : 1200);
    host.launch({.kind = WorkKind::kCopy, .stream = 9, .us = 150});
    pass(host, "op/a/forward", 20, 60, 2);
    host.wait_for_device(300);
    host.think(150);
    pass(host, "op/a/backward", 20, 100, 2);
  })};
}

struct Case {
  const char* name;
  Job (*job)();
};
constexpr Case kCases[] = {{"launch-bound", launch_bound}, {"compute-bound", compute_bound},
                           {"CUDA graphs", graphs},        {"kernels of graphs", graph_nodes},
                           {"overlapped", overlapped},     {"bubble", bubble},
                           {"data wait", data_wait}};

// A ring, and how the injected library fills it.
struct FilledRing : HandMadeRing {
  FilledRing() { clock.advance(Nanoseconds(1'700'000'100 * kSecond) - clock.wall()); }
  void publish(const RangeRecord& record) {
    record::RecordSlot& slot = claim();
    slot.begin_ns = record.begin_ns;
    slot.end_ns = record.end_ns;
    slot.payload = record.payload;
    slot.name = name_of(record.name);
    slot.domain = record::domain_is_value(record.kind) ? record.domain_value : name_of(record.domain);
    slot.thread = record.thread;
    slot.kind = record.kind;
    slot.flags = record.flags;
    slot.depth = record.depth;
    std::ranges::copy(record.detail, slot.detail);
    slot.sequence.fetch_add(1);
  }
  // All of them, with a look at the ring whenever it is half full.
  template <typename Read>
  void publish(const std::vector<RangeRecord>& records, const Read& read) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      publish(records[i]);
      if (i % (kSlots / 2) == 0 || i + 1 == records.size()) read();
    }
  }

 private:
  std::uint32_t name_of(std::string_view text) {
    if (text.empty()) return 0;
    const auto known = std::ranges::find(names_, text);
    if (known != names_.end()) return static_cast<std::uint32_t>(known - names_.begin()) + 1;
    names_.emplace_back(text);
    set_name(static_cast<std::uint32_t>(names_.size()), names_.back());
    return static_cast<std::uint32_t>(names_.size());
  }
  std::vector<std::string> names_;
};

// What an agent makes of all the records of a rank.
struct Agent {
  explicit Agent(const std::vector<RangeRecord>& records) {
    passes.on_device();
    ring.publish(records, [this] { read(); });
    fold.finish();
    fold.take_passes([&](const PassTime& one) { passes.add_device_time(one.range, one.device_ns); });
    for (const StepShares& shares : fold.take_shares()) passes.add_shares(shares, fold.tells_data());
    activity = fold.activity();
  }
  void read() {
    const RingDrain drained = reader->drain(kSlots, [&](std::span<const RangeRecord> batch) {
      for (const RangeRecord& record : batch) {
        if (record.kind == record::kRange) passes.add(record);
        fold.add(record);
      }
    });
    malformed += drained.malformed;
    fold.settle();
  }
  FilledRing ring;
  std::unique_ptr<RingReader> reader = ring.reader();
  std::uint64_t malformed = 0;
  ActivityFold fold;
  StepPasses passes;
  RankActivity activity;
};

struct Compared {
  const char* part;
  double truth;
  std::optional<double> told;
};

std::vector<Compared> compare(const TrueShares& truth, const RankActivity& told) {
  const PartShares& parts = told.parts;
  std::optional<double> idle;
  if (parts.launch_bound) idle = told.idle - *parts.launch_bound - parts.data.value_or(0);
  return {{"computation", truth.computation, told.computation},
          {"collectives", truth.own + truth.layout, parts.collectives},
          {"gradients", truth.gradients, parts.gradients},
          {"transfers", truth.transfers, parts.transfers},
          {"bubble", truth.bubble, parts.bubble},
          {"copies", truth.copies, told.exposed_copy},
          {"launch-bound", truth.launch_bound, parts.launch_bound},
          {"data", truth.data, parts.data.value_or(0)},
          {"idle", truth.idle, idle}};
}

}  // namespace

TEST_CASE("where a device's step went is told within 2 % of the truth") {
  for (const Case& one : kCases) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      StepJob job(one.job(), seed);
      for (std::size_t rank = 0; rank < one.job().size(); ++rank) {
        const Agent agent(job.records(rank));
        CHECK(agent.malformed == 0);
        CHECK(agent.activity.steps_measured == kShown);
        for (const Compared& part : compare(job.truth(rank, kSteps - kShown), agent.activity)) {
          INFO(one.name << ", seed " << seed << ", rank " << rank << ": " << part.part);
          REQUIRE(part.told);
          CHECK(*part.told == Approx(part.truth).margin(kAllowed));
        }
      }
    }
  }
}

TEST_CASE("a step's terms on a device are its parts, added up") {
  for (const Case& one : kCases) {
    INFO(one.name);
    StepJob job(one.job(), 9);
    Agent agent(job.records(0));
    const std::vector<TimedStep> timed = agent.passes.take();
    REQUIRE(timed.size() == StepPasses::kSteps);
    double length = 0;
    StepTermTimes sum{0, 0, 0, 0, 0, 0, 0, 0, 0};
    for (const TimedStep& step : timed) {
      REQUIRE(step.terms);
      const StepTermTimes& terms = *step.terms;
      length += static_cast<double>(terms.computation_ns + terms.collectives_ns + terms.transfers_ns +
                                    terms.gradients_ns + terms.idle_ns);
      sum.computation_ns += terms.computation_ns;
      sum.collectives_ns += terms.collectives_ns;
      sum.transfers_ns += terms.transfers_ns;
      sum.gradients_ns += terms.gradients_ns;
      sum.idle_ns += terms.idle_ns;
      *sum.own_ns += terms.own_ns.value();
      *sum.launch_bound_ns += terms.launch_bound_ns.value();
    }
    const TrueShares truth = job.truth(0, StepPasses::kFirst - 1);
    const auto share = [length](std::uint64_t ns) { return static_cast<double>(ns) / length; };
    CHECK(share(sum.computation_ns) == Approx(truth.computation + truth.own).margin(kAllowed));
    CHECK(share(sum.collectives_ns) == Approx(truth.layout).margin(kAllowed));
    CHECK(share(sum.transfers_ns) == Approx(truth.transfers + truth.bubble).margin(kAllowed));
    CHECK(share(sum.gradients_ns) == Approx(truth.gradients).margin(kAllowed));
    CHECK(share(sum.idle_ns) == Approx(truth.idle + truth.launch_bound + truth.data + truth.copies).margin(kAllowed));
    CHECK(share(*sum.own_ns) == Approx(truth.own).margin(kAllowed));
    CHECK(share(*sum.launch_bound_ns) == Approx(truth.launch_bound).margin(kAllowed));
  }
}

TEST_CASE("a rank on a device tells its steps' terms while it runs, as a rank on a host does") {
  constexpr std::uint64_t kSettled = 6'501 * kMillisecond;  // nothing comes so late
  FilledRing ring;
  ring.header().cupti_state = record::kCuptiRunning;
  RankRings rings{ring.clock, {}};
  std::vector<TimedStep> told;
  rings.on_passes = [&](net::LocalPeerId, const TimedStep& step) { told.push_back(step); };
  REQUIRE(rings.attach(1, ring.descriptor(), {"j", "{}"}, RankIdentity{"j", "", 0}).ok());
  const std::vector<RangeRecord> records = StepJob(launch_bound(), 2).records(0);
  ring.publish(records, [&] { rings.drain(); });
  CHECK(told.empty());
  std::uint32_t later = 1 << 20;
  for (const RangeRecord& record : records) {
    if (record.range.kind != RangeName::Kind::kStep) continue;
    ring.publish(kernel("another step's", ++later, record.end_ns + kSettled, record.end_ns + kSettled + 1));
    rings.drain();
  }
  REQUIRE(told.size() == StepPasses::kSteps);
  for (const TimedStep& step : told) {
    REQUIRE(step.terms);
    CHECK(step.terms->launch_bound_ns.value() > step.terms->idle_ns / 2);
    CHECK(step.terms->computation_ns == Approx(step.busy_ns).epsilon(0.01));
  }
}

TEST_CASE("steps in which not all was recorded are in no share") {
  for (const Case& one : kCases) {
    INFO(one.name);
    Disorder thinned;
    thinned.windows = true;
    StepJob job(one.job(), 5, thinned);
    const Agent agent(job.records(0));
    CHECK(agent.activity.steps_left_out > 0);
    REQUIRE(agent.activity.steps_measured > 8);
    for (const Compared& part : compare(job.truth(0, 0), agent.activity)) {
      INFO(part.part);
      REQUIRE(part.told);
      CHECK(*part.told == Approx(part.truth).margin(kAllowed));
    }
  }
}

TEST_CASE("what launches that are not recorded would say is unknown, and not guessed") {
  Disorder thinned;
  thinned.lost_launches = 0.3;
  StepJob launching(launch_bound(), 3, thinned);
  const RankActivity launched = Agent(launching.records(0)).activity;
  CHECK(launched.idle > 0.3);
  CHECK_FALSE(launched.parts.launch_bound);
  StepJob summing(overlapped(), 3, thinned);
  const PartShares parts = Agent(summing.records(0)).activity.parts;
  CHECK_FALSE(parts.collectives);
  CHECK_FALSE(parts.gradients);
  // A kernel's name says that it is a transfer, and no more.
  StepJob sending(bubble(), 3, thinned);
  const PartShares sent = Agent(sending.records(0)).activity.parts;
  CHECK(sent.transfers);
  CHECK_FALSE(sent.bubble);
}

TEST_CASE("a table of how far the shares of simulated steps are from the truth", "[.][step-shares]") {
  std::printf(
      "| steps | rank | part | truth, %% | told, %% | largest difference, points |\n| --- | --- | --- | --- | --- | "
      "--- |\n");
  for (const Case& one : kCases) {
    for (std::size_t rank = 0; rank < one.job().size(); ++rank) {
      struct Sum {
        double truth = 0, told = 0, worst = 0;
        int unknown = 0;
      };
      std::vector<Sum> sums(9);
      std::vector<const char*> names;
      constexpr std::uint64_t kSeeds = 100;
      for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        StepJob job(one.job(), seed);
        const auto parts = compare(job.truth(rank, kSteps - kShown), Agent(job.records(rank)).activity);
        names.clear();
        for (std::size_t i = 0; i < parts.size(); ++i) {
          names.push_back(parts[i].part);
          sums[i].truth += parts[i].truth / kSeeds;
          sums[i].told += parts[i].told.value_or(0) / kSeeds;
          sums[i].unknown += parts[i].told ? 0 : 1;
          sums[i].worst = std::max(sums[i].worst, std::abs(parts[i].told.value_or(-1) - parts[i].truth));
        }
      }
      for (std::size_t i = 0; i < sums.size(); ++i) {
        CHECK(sums[i].unknown == 0);
        CHECK(sums[i].worst <= kAllowed);
        if (sums[i].truth < 0.0005 && sums[i].told < 0.0005) continue;
        std::printf("%s", fmt::format("| {} | {} | {} | {:.2f} | {:.2f} | {:.2f} |\n", one.name, rank, names[i],
                                      100 * sums[i].truth, 100 * sums[i].told, 100 * sums[i].worst)
                              .c_str());
      }
    }
  }
}
