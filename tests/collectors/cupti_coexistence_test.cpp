// Other profilers in the same process, and what collecting may cost.

#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "cuda_job.hpp"

using namespace rig;

TEST_CASE("another profiler takes CUPTI over: its window is marked, it gets its records, and we come back after it") {
  for (const std::string release : {"version=24", "version=130001,per_thread=1"}) {
    CudaJob job(release);
    job.environment["TRIMTAB_PROFILER_BACK_OFF_MS"] = "300";
    Agent agent(job.socket);
    Program program = job.run({"init", "tick", "steal", "tick", "foreign", "enabled:51", "give_back", "tick",
                               "enabled:51", "count:cuptiSubscribe", "count:cuptiActivitySetAttribute"});
    const auto ring = agent.accept();
    take_until(*ring, [](const auto& all) { return count(all, "gemm") >= 100; });
    program.write_line();  // the other profiler begins
    wait_until([&] { return ring->take(), reason_of(*ring) == record::kCuptiForeign; });
    program.write_line();  // and ends
    CHECK(program.read_line() == "foreign 1");
    CHECK(program.read_line() == "enabled 0");  // a graph's kernels are the other's
    const auto records = take_until(*ring, [](const auto& all) {
      const auto window = std::ranges::find(all, "foreign_profiler", &Seen::name);
      return window != all.end() &&
             std::ranges::any_of(window, all.end(), [](const Seen& s) { return s.name == "gemm"; });
    });
    CHECK(reason_of(*ring) == record::kCuptiRunning);
    const auto window = std::ranges::find(records, "foreign_profiler", &Seen::name);
    CHECK(window->kind == record::kWindow);
    CHECK(window->duration_ns > 0);
    program.write_line();
    CHECK(program.read_line() == "enabled 1");
    CHECK(program.read_line() == "count 0");
    CHECK(program.read_line() == "count 0");  // an attribute is the whole process's
    CHECK(program.wait() == 0);
  }
}

TEST_CASE("a takeover shows between samples too, and is left alone") {
  CudaJob job;
  job.environment["TRIMTAB_BUDGET"] = "0.02";  // of 40 %: samples, not less
  Agent agent(job.socket);
  Program program = job.run({"init", "costly:40", "tick", "steal", "tick", "enable:10", "tick", "enabled:10"});
  const auto ring = agent.accept();
  take_until(*ring, [](const auto& all) { return count(all, "sampling") >= 4; });
  CHECK(reason_of(*ring) == record::kCuptiRunning);
  program.write_line();
  wait_until([&] { return ring->take(), reason_of(*ring) == record::kCuptiForeign; });
  program.write_line();
  for (int i = 0; i < 500; ++i) pause_a_little();  // a phase would begin and end meanwhile
  program.write_line();
  CHECK(program.read_line() == "enabled 1");
  CHECK(program.wait() == 0);
}

TEST_CASE("coming back is put off as long as CUPTI refuses the callbacks") {
  CudaJob job("cuptiActivityRegisterCallbacks=39@3");  // ours, the other's, and no more
  job.environment["TRIMTAB_PROFILER_BACK_OFF_MS"] = "100";
  Agent agent(job.socket);
  Program program = job.run({"init", "tick", "steal", "tick", "count:cuptiActivityRegisterCallbacks", "tick"});
  const auto ring = agent.accept();
  take_until(*ring, [](const auto& all) { return count(all, "gemm") >= 100; });
  program.write_line();
  wait_until([&] { return ring->take(), ring->header().cupti_state >> 16 == 39; });
  CHECK(reason_of(*ring) == record::kCuptiForeign);
  for (int i = 0; i < 1000; ++i) pause_a_little();  // 100, 200, 400 ms: it tries again, more rarely
  program.write_line();
  const std::string line = program.read_line();
  const int calls = std::stoi(line.substr(line.find(' ') + 1));
  CHECK(calls >= 4);
  CHECK(calls <= 8);
  CHECK(reason_of(*ring) == record::kCuptiForeign);
  program.write_line();
  CHECK(program.wait() == 0);
}

TEST_CASE("however often another profiler takes over, no buffer is lost for good") {
  CudaJob job("version=27");
  job.environment["TRIMTAB_PROFILER_BACK_OFF_MS"] = "100";
  job.environment["TRIMTAB_CUPTI_BUFFERS"] = "4";
  Agent agent(job.socket);
  std::vector<std::string> arguments{"init"};
  for (int i = 0; i < 6; ++i) arguments.insert(arguments.end(), {"tick", "launch:5", "steal", "tick", "give_back"});
  arguments.insert(arguments.end(), {"tick", "launch:100"});
  Program program = job.run(arguments);
  const auto ring = agent.accept();
  const auto gemms = [](const auto& all) {
    return count(all, "gemm") >= 3000;
  };  // 300 steps of 2 ms: more than 20 flushes
  for (int i = 0; i < 6; ++i) {
    take_until(*ring, gemms);
    program.write_line();
    wait_until([&] { return ring->take(), reason_of(*ring) == record::kCuptiForeign; });
    program.write_line();
  }
  take_until(*ring, gemms);
  program.write_line();
  CHECK(program.wait() == 0);
  CHECK(count(ring->take(), "layernorm") == 50);
  CHECK(ring->header().cupti_dropped == 0);
}

TEST_CASE("records that we have not asked for show that another profiler is at work") {
  CudaJob job;
  Agent agent(job.socket);
  Program program = job.run({"init", "enable:5", "call:41", "launch:1", "wait:ours", "call:17x40", "wait:end"});
  const auto ring = agent.accept();
  CHECK(program.read_line() == "ours");
  take_until(*ring, [](const auto& all) { return count(all, "gemm") == 1; });
  CHECK(reason_of(*ring) == record::kCuptiRunning);
  program.write_line();
  wait_until([&] { return reason_of(*ring) == record::kCuptiForeign; });
  CHECK(program.read_line() == "end");
  program.write_line();
  CHECK(program.wait() == 0);
}

TEST_CASE("the budget lowers the detail, says so, and keeps to it") {
  CudaJob job;
  job.environment["TRIMTAB_BUDGET"] = "0.001";
  Agent agent(job.socket);
  // 100 ms of overhead at once is more than a minute of this budget.
  Program program = job.run({"init", "overhead:100000000", "tick"});
  const auto ring = agent.accept();
  wait_until([&] { return ring->header().cost_ns >= 100000000; });
  wait_until([&] { return ring->take(), ring->header().detail < record::kDetailAll; });
  const auto records = take_until(*ring, [](const auto& all) { return count_kind(all, record::kWindow) > 0; });
  const auto window = std::ranges::find(records, record::kWindow, &Seen::kind);
  CHECK((window->name == "sampling" || window->name == "budget"));
  program.write_line();
  CHECK(program.wait() == 0);
}

TEST_CASE("a job that costs too much is sampled: steps outside the windows have all of their kernels") {
  CudaJob job;
  // 40 % against 2 %: what a loaded machine adds to it changes neither that it is too much nor that samples are not.
  job.environment["TRIMTAB_BUDGET"] = "0.02";
  Agent agent(job.socket);
  Program program = job.run({"init", "costly:40", "tick"});
  const auto ring = agent.accept();
  auto records = take_until(*ring, [](const auto& all) { return count(all, "sampling") >= 4; });
  program.write_line();
  CHECK(program.wait() == 0);
  for (Seen& seen : ring->take()) records.push_back(std::move(seen));
  CHECK(ring->counts.dropped == 0);

  std::vector<Seen> windows;
  std::ranges::copy_if(records, std::back_inserter(windows), [](const Seen& s) { return s.kind == record::kWindow; });
  const std::uint64_t last = windows.back().begin_ns;
  std::size_t whole = 0;
  std::size_t in_windows = 0;
  for (const Seen& step : records) {
    if (step.name != "step" || step.end_ns > last) continue;
    const bool touched = std::ranges::any_of(
        windows, [&](const Seen& w) { return w.begin_ns < step.end_ns && step.begin_ns < w.end_ns; });
    in_windows += touched ? 1 : 0;
    if (touched) continue;
    ++whole;
    CHECK(std::ranges::count_if(records, [&](const Seen& s) {
            return s.name == "gemm" && s.begin_ns >= step.begin_ns && s.begin_ns <= step.end_ns;
          }) == 10);
  }
  CHECK(whole > 0);
  CHECK(in_windows > whole / 100);
}

TEST_CASE("from 13.3 on CUPTI itself says that another has switched kernels off") {
  CudaJob job("version=130300");
  job.environment["TRIMTAB_PROFILER_BACK_OFF_MS"] = "100";
  Agent agent(job.socket);
  Program program = job.run({"init", "launch:10", "wait:1", "disable:10", "wait:2"});
  const auto ring = agent.accept();
  CHECK(program.read_line() == "1");
  CHECK(reason_of(*ring) == record::kCuptiRunning);
  program.write_line();
  CHECK(program.read_line() == "2");
  take_until(*ring, [](const auto& all) { return count(all, "foreign_profiler") == 1; });
  CHECK(reason_of(*ring) == record::kCuptiRunning);
  program.write_line();
  CHECK(program.wait() == 0);
}

TEST_CASE("the agent can ask for full detail, whatever it costs") {
  CudaJob job;
  job.environment["TRIMTAB_BUDGET"] = "0.001";
  Agent agent(job.socket);
  Program program = job.run({"init", "overhead:100000000", "tick"});
  const auto ring = agent.accept();
  wait_until([&] { return ring->header().cost_ns >= 100000000; });
  wait_until([&] { return ring->take(), ring->header().detail < record::kDetailAll; });
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  ring->header().full_detail_until_ns = (static_cast<std::uint64_t>(now.tv_sec) + 60) * 1000000000U;
  wait_until([&] { return ring->take(), ring->header().detail == record::kDetailAll; });
  take_until(*ring, [](const auto& all) { return count(all, "gemm") > 100; });
  ring->header().full_detail_until_ns = 0;
  wait_until([&] { return ring->take(), ring->header().detail < record::kDetailAll; });
  program.write_line();
  CHECK(program.wait() == 0);
}
