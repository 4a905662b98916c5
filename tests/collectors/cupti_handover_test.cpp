// A profiler that is linked with CUPTI, as torch.profiler's library is, beside us.

#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <string>
#include <vector>

#include "cuda_job.hpp"

using namespace rig;

namespace {

struct ProfiledJob : CudaJob {
  explicit ProfiledJob(const std::string& script = "version=130001") : CudaJob(script) {
    environment["TRIMTAB_CUPTI_LIBRARY"] = FAKE_CUPTI_NAMED;
    environment["FAKE_CUPTI_LIBRARY"] = FAKE_CUPTI_NAMED;
    environment["FAKE_PROFILER"] = FAKE_PROFILER;
  }
};

std::uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

bool has_begun(const std::vector<Seen>& all) {
  return count(all, "gemm") >= 100;
}

bool back_after_a_window(const std::vector<Seen>& all) {
  const auto window = std::ranges::find(all, "foreign_profiler", &Seen::name);
  return window != all.end() &&
         std::ranges::any_of(window, all.end(), [](const Seen& seen) { return seen.name == "gemm"; });
}

}  // namespace

TEST_CASE("another profiler sees every kernel of its first trace, and we have all of those before it") {
  for (const std::string release : {"version=24", "version=130001,per_thread=1"}) {
    ProfiledJob job(release);
    job.environment["TRIMTAB_FLUSH_MS"] = "60000";  // nothing but the handover takes records from CUPTI
    Agent agent(job.socket);
    Program program = job.run({"profiler", "init", "launch:25", "profile", "launch:30", "profiled", "wait:end"});
    const auto ring = agent.accept();
    CHECK(program.read_line() == "kernels 30, buffers of others 0");
    CHECK(program.read_line() == "end");
    const auto records = ring->take();
    CHECK(count(records, "gemm") + count(records, "layernorm") == 25);
    program.write_line();
    CHECK(program.wait() == 0);
    CHECK(count_kind(ring->take(), record::kKernel) == 0);
  }
}

TEST_CASE("what is not led through us is lost to the other: the buffer that it finds is ours") {
  ProfiledJob job;
  job.environment["TRIMTAB_FLUSH_MS"] = "60000";
  job.environment["TRIMTAB_FOLLOW_PROFILERS"] = "0";
  Agent agent(job.socket);
  Program program = job.run({"profiler", "init", "wait:begun", "launch:25", "profile", "launch:30", "profiled"});
  const auto ring = agent.accept();
  CHECK(program.read_line() == "begun");
  for (int i = 0; i < 300; ++i) pause_a_little();  // the thread's first look, which is at once, finds nothing to fetch
  program.write_line();
  CHECK(program.read_line() == "kernels 0, buffers of others 1");
  CHECK(program.wait() == 0);
}

TEST_CASE("we come back as soon as the other is through, with the time of day in our records, again and again") {
  ProfiledJob job;
  Agent agent(job.socket);
  std::vector<std::string> words{"init", "launch:1", "profiler", "tick"};  // loaded later: found at the next look
  for (int trace = 0; trace < 3; ++trace) words.insert(words.end(), {"profile", "step:3", "profiled", "tick"});
  Program program = job.run(words);
  const auto ring = agent.accept();
  take_until(*ring, has_begun);
  for (int trace = 0; trace < 3; ++trace) {
    const std::uint64_t begun = now_ns();
    program.write_line();
    CHECK(program.read_line() == "kernels 30, buffers of others 0");
    const auto records = take_until(*ring, back_after_a_window);
    CHECK(reason_of(*ring) == record::kCuptiRunning);
    CHECK(count(records, "foreign_profiler") == 1);
    for (const Seen& seen : records) {
      if (seen.kind != record::kKernel) continue;
      CHECK(seen.begin_ns + 60'000'000'000U > begun);
      CHECK(seen.begin_ns <= now_ns());
    }
  }
  program.write_line();
  CHECK(program.wait() == 0);
}

TEST_CASE("one who has CUPTI for good is left alone for good") {
  ProfiledJob job;
  job.environment["TRIMTAB_PROFILER_BACK_OFF_MS"] = "100";
  Agent agent(job.socket);
  Program program =
      job.run({"profiler", "init", "tick", "profile", "tick", "count:cuptiActivityRegisterCallbacks", "profiled"});
  const auto ring = agent.accept();
  take_until(*ring, has_begun);
  program.write_line();
  wait_until([&] { return reason_of(*ring) == record::kCuptiForeign; });
  for (int i = 0; i < 500; ++i) pause_a_little();  // several times the while for which a mere suspicion leaves it alone
  program.write_line();
  CHECK(program.read_line() == "count 2");  // ours, and its own
  CHECK(program.read_line().ends_with("buffers of others 0"));
  CHECK(program.wait() == 0);
}

TEST_CASE("kinds that another has switched on before it registers stay on, and their records are its own") {
  ProfiledJob job;
  job.environment["TRIMTAB_FLUSH_MS"] = "60000";
  Agent agent(job.socket);
  Program program =
      job.run({"profiler", "init", "launch:25", "calls:e10", "calls:cr", "launch:30", "calls:d10f1", "kernels"});
  const auto ring = agent.accept();
  CHECK(program.read_line() == "kernels 30");
  CHECK(program.wait() == 0);
  CHECK(count_kind(ring->take(), record::kKernel) == 25);
}

TEST_CASE("one who has registered once gets its callbacks back each time that it switches kinds on") {
  ProfiledJob job;
  Agent agent(job.socket);
  Program program = job.run({"profiler", "init", "tick", "calls:cre10", "launch:30", "calls:d10f1", "kernels", "tick",
                             "calls:e10", "launch:20", "calls:d10f1", "kernels", "tick"});
  const auto ring = agent.accept();
  take_until(*ring, has_begun);
  for (const char* kernels : {"kernels 30", "kernels 50"}) {
    program.write_line();
    CHECK(program.read_line() == kernels);
    take_until(*ring, back_after_a_window);
  }
  program.write_line();
  CHECK(program.wait() == 0);
}

TEST_CASE("neither a flush in the midst of a trace nor a kind that was never on ends it") {
  ProfiledJob job;
  job.environment["TRIMTAB_PROFILER_BACK_OFF_MS"] = "100";
  Agent agent(job.socket);
  Program program = job.run({"profiler", "init", "tick", "calls:cre10e5d3f1d5f1", "tick",
                             "count:cuptiActivityRegisterCallbacks", "calls:d10f1", "tick"});
  const auto ring = agent.accept();
  take_until(*ring, has_begun);
  program.write_line();
  for (int i = 0; i < 500; ++i) pause_a_little();
  program.write_line();
  CHECK(program.read_line() == "count 2");
  take_until(*ring, back_after_a_window);
  program.write_line();
  CHECK(program.wait() == 0);
}

TEST_CASE("we come back from one who records no kernels, does not fetch, or switches nothing on") {
  for (const char* calls : {"calls:cre5d5f1", "calls:cre10d10f0", "calls:cr"}) {
    ProfiledJob job;
    job.environment["TRIMTAB_PROFILER_BACK_OFF_MS"] = "100";
    Agent agent(job.socket);
    Program program = job.run({"profiler", "init", "tick", calls, "tick"});
    const auto ring = agent.accept();
    take_until(*ring, has_begun);
    program.write_line();
    take_until(*ring, back_after_a_window);
    CHECK(reason_of(*ring) == record::kCuptiRunning);
    program.write_line();
    CHECK(program.wait() == 0);
  }
}

TEST_CASE("one who stops while we have CUPTI has switched our kinds off: we switch them on again") {
  ProfiledJob job;
  job.environment["TRIMTAB_PROFILER_BACK_OFF_MS"] = "100";
  Agent agent(job.socket);
  // It stops for a while without fetching; we are back, and then it ends.
  Program program = job.run({"profiler", "init", "tick", "calls:cre10d10f0", "tick", "calls:d10f1", "tick"});
  const auto ring = agent.accept();
  take_until(*ring, has_begun);
  for (int times = 0; times < 2; ++times) {
    program.write_line();
    take_until(*ring, back_after_a_window);
  }
  program.write_line();
  CHECK(program.wait() == 0);
}

TEST_CASE("a child that is forked during a trace may trace too, and the parent's goes on") {
  ProfiledJob job;
  Agent agent(job.socket);
  Program program =
      job.run({"profiler", "init", "launch:5", "profile", "fork_profile", "step:2", "profiled", "fork_profile"});
  const auto ring = agent.accept();
  CHECK(program.read_line() == "kernels 20, buffers of others 0");
  CHECK(program.wait() == 0);
}
