#include "simulated_step_job.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../kernel_records.hpp"
#include "base/check.hpp"

namespace trimtab::agent::test {

namespace {

constexpr std::uint64_t kBegin = 1'700'000'000 * kSecond;
constexpr double kCallUs = 3.5;     // a launch's call
constexpr double kLatencyUs = 2.5;  // from the call's begin to an idle device
constexpr double kBetweenUs = 0.8;  // two kernels of a stream
constexpr double kReturnUs = 4;     // from the device's end to the end of a wait for it
constexpr double kWindowEveryUs = 90'000;
constexpr double kWindowUs = 12'000;
constexpr double kNearUs = 6000;  // no longer does anything idle

std::string_view name_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::kComputation:
      return "sm90_xmma_gemm_bf16";
    case WorkKind::kSend:
    case WorkKind::kReceive:
      return "ncclDevKernel_SendRecv(x)";
    default:
      return "ncclDevKernel_AllReduce_Sum_bf16_RING_LL128(x)";
  }
}

template <typename Spans>
bool within(const Spans& spans, double at) {
  return std::ranges::any_of(spans, [at](const auto& span) { return span.begin <= at && at < span.end; });
}

}  // namespace

int HostProgram::launch(const Work& work) {
  add({Do::kLaunch, 0, work});
  return works_++;
}

void HostProgram::wait_for_data(double us) {
  open("data");
  actions_.push_back({Do::kThink, us});
  actions_.back().data = true;
  close();
}

void HostProgram::open(std::string_view name, std::int64_t payload, bool aside) {
  actions_.push_back({Do::kOpen});
  actions_.back().name = name;
  actions_.back().payload = payload;
  actions_.back().aside = aside;
}

StepJob::StepJob(std::vector<HostProgram> programs, std::uint64_t seed, const Disorder& disorder)
    : random_(seed), disorder_(disorder) {
  for (HostProgram& program : programs) {
    ranks_.emplace_back();
    ranks_.back().program = std::move(program);
  }
  run();
}

void StepJob::run() {
  const auto running = [](const Rank& rank) { return rank.next < rank.program.actions_.size(); };
  while (std::ranges::any_of(ranks_, running)) {
    bool progress = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      while (running(ranks_[r]) && act(r)) progress = true;
    }
    TRIMTAB_ASSERT(progress, "the simulated ranks wait for each other");
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    for (int w = 0; std::cmp_less(w, ranks_[r].works.size()); ++w) {
      TRIMTAB_ASSERT(find_end(r, w), "all simulated work ends");
    }
  }
}

// False where it has to wait for what another rank has not handed out yet.
bool StepJob::act(std::size_t r) {
  using Do = HostProgram::Do;
  Rank& rank = ranks_[r];
  const HostProgram::Action& action = rank.program.actions_[rank.next];
  switch (action.what) {
    case Do::kThink: {
      const double us = action.us * (1 + 0.05 * random_.normal());
      if (action.data) rank.data.push_back({rank.now, rank.now + us});
      rank.now += std::max(us, 0.0);
      break;
    }
    case Do::kLaunch:
      launch(r, action.work);
      break;
    case Do::kWait: {
      double done = rank.now;
      for (const auto& [stream, work] : rank.newest) {
        if (!find_end(r, work)) return false;
        done = std::max(done, rank.works[static_cast<std::size_t>(work)].end + kReturnUs + action.us);
      }
      rank.waits.push_back({rank.now, done});
      rank.now = done;
      break;
    }
    case Do::kOpen:
      rank.open.push_back({action.name, action.payload, rank.now, 0, ++rank.ids,
                           static_cast<std::uint16_t>(action.aside ? 0 : rank.open.size()), action.aside});
      break;
    case Do::kClose:
      close(rank);
      break;
  }
  ++rank.next;
  return true;
}

void StepJob::close(Rank& rank) {
  Range range = rank.open.back();
  rank.open.pop_back();
  range.end = rank.now;
  if (range.name == "step") rank.steps.push_back({range.begin, range.end});
  rank.ranges.push_back(range);
}

void StepJob::launch(std::size_t r, const Work& work) {
  Rank& rank = ranks_[r];
  Ran call;
  static_cast<Work&>(call) = work;
  call.call = ++rank.calls;
  call.handed_out = rank.now;
  call.returned = rank.now = rank.now + kCallUs * (1 + 0.1 * random_.uniform());
  if (!rank.open.empty()) call.range = rank.open.back().id;
  for (int node = 0; node < work.nodes; ++node) hand_out(r, call);
}

void StepJob::hand_out(std::size_t r, const Ran& call) {
  Rank& rank = ranks_[r];
  Ran ran = call;
  ran.us *= 1 + 0.03 * random_.normal();
  const auto newest = rank.newest.find(ran.stream);
  if (newest != rank.newest.end()) ran.before = newest->second;
  const int number = static_cast<int>(rank.works.size());
  rank.works.push_back(ran);
  rank.newest[ran.stream] = number;
  if (ran.meeting >= 0) meetings_[ran.meeting].emplace_back(r, number);
  (void)find_end(r, number);  // so that no long chain is to be followed later
}

const StepJob::Ran* StepJob::other_end(std::size_t r, const Ran& work) {
  for (const auto& [rank, number] : meetings_[work.meeting]) {
    if (rank != r) return find_begin(rank, number) ? &ranks_[rank].works[static_cast<std::size_t>(number)] : nullptr;
  }
  return nullptr;
}

bool StepJob::find_begin(std::size_t r, int number) {
  Ran& work = ranks_[r].works[static_cast<std::size_t>(number)];
  if (work.begin >= 0) return true;
  double begin = work.handed_out + kLatencyUs;
  for (const int earlier : {work.before, work.waits_for}) {
    if (earlier < 0) continue;
    if (!find_end(r, earlier)) return false;
    begin = std::max(begin, ranks_[r].works[static_cast<std::size_t>(earlier)].end + kBetweenUs);
  }
  work.begin = begin;
  return true;
}

bool StepJob::find_end(std::size_t r, int number) {
  Ran& work = ranks_[r].works[static_cast<std::size_t>(number)];
  if (work.end >= 0) return true;
  if (!find_begin(r, number)) return false;
  double begin = work.begin;
  if (work.meeting >= 0) {
    const Ran* other = other_end(r, work);
    if (other == nullptr) return false;
    begin = std::max(begin, other->begin);
    // Both ends are over at the same time: one length for both.
    work.us = std::min(work.us, other->us);
    if (other->end >= 0) {
      work.end = other->end;
      return true;
    }
  }
  work.end = begin + work.us;
  return true;
}

// What the rank does at that moment, as somebody who sees everything says.
double TrueShares::*StepJob::share_at(const Rank& rank, double at) const {
  std::array<bool, 8> runs{};
  bool waits = false;
  for (const Ran& work : rank.works) {
    if (work.begin > at || work.end <= at) continue;
    const bool transfer = work.kind == WorkKind::kSend || work.kind == WorkKind::kReceive;
    if (transfer && at < work.end - work.us) {
      waits = true;
    } else {
      runs[static_cast<std::size_t>(work.kind)] = true;
    }
  }
  const auto any = [&](std::initializer_list<WorkKind> kinds) {
    return std::ranges::any_of(kinds, [&](WorkKind kind) { return runs[static_cast<std::size_t>(kind)]; });
  };
  if (any({WorkKind::kComputation, WorkKind::kGraph})) return &TrueShares::computation;
  if (any({WorkKind::kOwn})) return &TrueShares::own;
  if (any({WorkKind::kLayout})) return &TrueShares::layout;
  if (any({WorkKind::kSend, WorkKind::kReceive})) return &TrueShares::transfers;
  if (any({WorkKind::kGradients})) return &TrueShares::gradients;
  if (waits) return &TrueShares::bubble;
  if (any({WorkKind::kCopy})) return &TrueShares::copies;
  return idle_at(rank, at);
}

double TrueShares::*StepJob::idle_at(const Rank& rank, double at) const {
  if (within(rank.data, at)) return &TrueShares::data;
  if (within(rank.waits, at)) return &TrueShares::idle;
  double since = 0;
  const Ran* next = nullptr;
  for (const Ran& work : rank.works) {
    if (work.end <= at) since = std::max(since, work.end);
    if (work.begin > at && (next == nullptr || work.begin < next->begin)) next = &work;
  }
  return next == nullptr || next->returned > since ? &TrueShares::launch_bound : &TrueShares::idle;
}

TrueShares StepJob::truth(std::size_t r, std::size_t first) const {
  const Rank& rank = ranks_[r];
  TrueShares shares;
  double length = 0;
  for (std::size_t s = first; s < rank.steps.size(); ++s) {
    const Span& step = rank.steps[s];
    if (disorder_.windows && (in_window(step.begin) || in_window(step.end))) continue;
    length += step.end - step.begin;
    // Between two of these nothing begins or ends.
    std::vector<double> moments{step.begin, step.end};
    const auto add = [&](double at) {
      if (at > step.begin && at < step.end) moments.push_back(at);
    };
    Rank near;  // what a moment of this step has to do with
    for (const Ran& work : rank.works) {
      if (work.end < step.begin - kNearUs || work.begin > step.end + kNearUs) continue;
      near.works.push_back(work);
      for (const double at : {work.begin, work.end - work.us, work.end}) add(at);
    }
    for (const auto* spans : {&rank.data, &rank.waits}) {
      for (const Span& span : *spans) {
        if (span.end < step.begin || span.begin > step.end) continue;
        (spans == &rank.data ? near.data : near.waits).push_back(span);
        add(span.begin);
        add(span.end);
      }
    }
    std::ranges::sort(moments);
    for (std::size_t m = 1; m < moments.size(); ++m) {
      if (moments[m] > moments[m - 1]) {
        shares.*share_at(near, (moments[m] + moments[m - 1]) / 2) += moments[m] - moments[m - 1];
      }
    }
  }
  for (double TrueShares::*const share :
       {&TrueShares::computation, &TrueShares::own, &TrueShares::layout, &TrueShares::gradients, &TrueShares::transfers,
        &TrueShares::bubble, &TrueShares::copies, &TrueShares::launch_bound, &TrueShares::data, &TrueShares::idle}) {
    shares.*share /= length;
  }
  return shares;
}

bool StepJob::in_window(double us) {
  return std::fmod(us, kWindowEveryUs) < kWindowUs;
}

std::uint64_t StepJob::stamp(double us, double noise_us) {
  return kBegin + static_cast<std::uint64_t>(std::max(0.0, (us + noise_us * random_.normal()) * 1000));
}

void StepJob::add_device_records(const Rank& rank, std::vector<std::pair<double, RangeRecord>>& into) {
  std::uint32_t told = 0;
  for (const Ran& work : rank.works) {
    const std::uint32_t correlation = work.call;
    if (disorder_.windows && (in_window(work.begin) || in_window(work.end))) continue;
    const std::uint64_t begin = stamp(work.begin, disorder_.clock_noise_us);
    const std::uint64_t end = std::max(begin, stamp(work.end, disorder_.clock_noise_us));
    RangeRecord record = kernel(name_of(work.kind), correlation, begin, end, work.stream);
    if (work.kind == WorkKind::kGraph) record.kind = record::kGraph;
    if (work.kind == WorkKind::kCopy) {
      record.kind = record::kMemcpy;
      record.domain_value = correlation;
    }
    into.emplace_back(work.end, record);
    const bool again = std::exchange(told, correlation) == correlation;  // a graph's second kernel
    if (again || random_.uniform() < disorder_.lost_launches) continue;
    RangeRecord call = test::launch(correlation, work.range);
    call.begin_ns = stamp(work.handed_out, 0);
    call.end_ns = stamp(work.returned, 0);
    into.emplace_back(work.end, call);
  }
}

std::vector<RangeRecord> StepJob::records(std::size_t r) {
  const Rank& rank = ranks_[r];
  std::vector<std::pair<double, RangeRecord>> device;
  add_device_records(rank, device);
  for (const Span& wait : rank.waits) {
    RangeRecord record;
    record.kind = record::kWait;
    record.begin_ns = stamp(wait.begin, 0);
    record.end_ns = stamp(wait.end, 0);
    device.emplace_back(wait.end, record);
  }
  // A buffer comes when it is full, its records shuffled, and some time after the last of them.
  std::vector<std::pair<double, RangeRecord>> all;
  for (auto& [at, record] : device) {
    const double buffer = std::floor(at / disorder_.buffer_us) + 1;
    all.emplace_back(buffer * disorder_.buffer_us * (1 + 1e-9 * random_.uniform()), record);
  }
  for (const Range& one : rank.ranges) {
    all.emplace_back(one.end, range(one.name, one.id, stamp(one.begin, 0), stamp(one.end, 0), one.depth, one.payload));
    if (one.aside) all.back().second.thread = 200;
  }
  if (disorder_.windows) {
    for (double at = 0; at < rank.now; at += kWindowEveryUs) {
      all.emplace_back(at + kWindowUs, window(stamp(at, 0), stamp(at + kWindowUs, 0)));
    }
  }
  std::ranges::stable_sort(all, {}, &std::pair<double, RangeRecord>::first);
  std::vector<RangeRecord> ordered;
  for (const auto& [at, record] : all) ordered.push_back(record);
  return ordered;
}

}  // namespace trimtab::agent::test
