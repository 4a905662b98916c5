// What every reader of settings says of every key that is given a wrong value, and of whole files that are wrong, and
// what both daemons say of their flags.

#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>
#include <sstream>

#include "../../golden_text.hpp"
#include "agent/configuration.hpp"
#include "coordinator/settings.hpp"
#include "readers.hpp"
#include "schema/job.hpp"

using namespace trimtab;

namespace {

void holds(const std::string& name, const std::string& text) {
  const std::string kept = test::golden_text(std::string(TRIMTAB_GOLDEN) + "/" + name + ".txt", text);
  std::istringstream old_lines(kept), new_lines(text);
  for (std::string before, now; std::getline(new_lines, now);) {
    std::getline(old_lines, before);
    if (before == now) continue;
    FAIL(name << "\n  committed: " << before << "\n  now:       " << now
              << "\nIf the new one is right, run this test with TRIMTAB_WRITE_GOLDEN=1 and commit the file.");
  }
  CHECK(kept == text);
}

std::string of_reader(const std::string& name, const std::vector<std::string>& files) {
  std::string text;
  for (const SettingsReader& reader : settings_readers()) {
    if (reader.name != name) continue;
    for (const std::string& file : files) text += file + "\n=> " + reader.says(file) + "\n\n";
  }
  return text;
}

// What the program says, and how it ends.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " 2>&1; echo exit code $?").c_str(), "r"),
                                                   ::pclose);
  REQUIRE(pipe != nullptr);
  std::string text;
  char part[4096];
  while (const std::size_t size = std::fread(part, 1, sizeof part, pipe.get())) text.append(part, size);
  return text;
}

// As they run without anybody's settings.
std::string daemon(const std::string& name, const std::string& arguments) {
  const std::string text = output_of("timeout 20 env -i " TRIMTAB_BIN "/" + name + " " + arguments);
  const std::string bin = TRIMTAB_BIN "/";
  std::string shown = text;
  for (auto at = shown.find(bin); at != std::string::npos; at = shown.find(bin)) shown.erase(at, bin.size());
  return shown;
}

}  // namespace

TEST_CASE("what every reader says of each key with each kind of value") {
  for (const SettingsReader& reader : settings_readers()) {
    std::string text;
    for (const std::string& key : reader.keys) {
      text += key + "\n";
      for (const char* value :
           {"-1",   "0",       "1000000000000", "0.5",       "nan",  "\"1KiB\"", "\"1ms\"", "\"5 parsecs\"",
            "\"\"", "\"x\"",   "\"info\"",      "\"2\"",     "true", "[]",       "[1]",     "[\"x\"]",
            "{}",   "{a = 1}", "[{a = 1}]",     "2026-11-27"}) {
        text += "  " + std::string(value) + " => " + reader.says(key + " = " + value) + "\n";
      }
    }
    holds(reader.name + "_values", text);
  }
}

TEST_CASE("what the agent says of files, variables and flags that are wrong") {
  std::string text = of_reader("agent", {"\nmemmory = 1",
                                         "zzz = 1",
                                         "log-level = \"info\"",
                                         "[trials]\nblocks = 1",
                                         "devices = 1\ndevices = 2",
                                         "devices = ",
                                         "a.b.c.d.e.f.g.h.i = 1",
                                         "coordinator = \"host\"",
                                         "coordinator = \":1\"",
                                         "coordinator = \"host:0\"",
                                         "coordinator = \"host:70000\"",
                                         "coordinator = \"host:x\"",
                                         "devices = 1025",
                                         "devices = 0x10",
                                         "devices = 99999999999999999999",
                                         "metrics_port = 65536",
                                         "max_frame = \"1GiB\"",
                                         "memory = \"700 potatoes\"",
                                         "kill_grace = \"11min\"",
                                         "silence_limit = \"1s\"",
                                         "sample_period = \"50ms\"",
                                         "otlp_endpoint = \"ftp://x\"",
                                         "otlp_endpoint = \"http://ana:secret@c\"",
                                         "otlp_period = \"25h\"",
                                         "log_level = \"loud\"",
                                         "metrics_jobs = \"all\"",
                                         "tenant = \"a b\"",
                                         "address = \"a b\"",
                                         "cpu_budget = 5000",
                                         "node = \"" + std::string(256, 'n') + "\""});
  const auto given = [&](const std::string& place, const std::string& name, const std::string& value) {
    const bool flag = place == "flag";
    const std::map<std::string, std::string> one = {{name, value}};
    const auto read = flag ? agent::configure({}, {}, {}, one) : agent::configure({}, {}, one, {});
    text += place + " " + name + " = " + value + "\n=> " + (read.ok() ? "ok" : read.error().message) + "\n\n";
  };
  given("variable", "TRIMTAB_COORDINATOR", "nowhere");
  given("variable", "TRIMTAB_RANK_LOG_LIMIT", "tiny");
  given("variable", "TRIMTAB_LOG_FILE", "");
  given("variable", "TRIMTAB_NOTHING_OF_OURS", "x");
  given("flag", "rank_log_limit", "tiny");
  given("flag", "metrics_port", "70000");
  given("flag", "memmory", "1");
  holds("agent_files", text);
}

TEST_CASE("what the coordinator says of files, variables and flags that are wrong") {
  std::string text = of_reader("coordinator", {"\nlog_levle = \"info\"",
                                               "zzz = 1",
                                               "log-level = \"info\"",
                                               "[trials]\nblocks = 1",
                                               "max_jobs = 1\nmax_jobs = 2",
                                               "max_jobs = ",
                                               "a.b.c.d.e.f.g.h.i = 1",
                                               "listen = \"host\"",
                                               "listen = \":1\"",
                                               "listen = \"[]:1\"",
                                               "listen = \"host:70000\"",
                                               "max_jobs = 1000001",
                                               "max_jobs = 0x10",
                                               "max_frame = \"1GiB\"",
                                               "peer_queue = \"1TiB\"",
                                               "log_limit = \"1KiB\"",
                                               "costs_limit = \"1KiB\"",
                                               "memory_budget = \"0\"",
                                               "memory_budget = \"700 potatoes\"",
                                               "node_timeout = \"1s\"",
                                               "rendezvous_ports = \"20000\"",
                                               "rendezvous_ports = \"20-30\"",
                                               "rendezvous_ports = \"3000-2000\"",
                                               "search_time = \"soon\"",
                                               "otlp_endpoint = \"ftp://x\"",
                                               "otlp_endpoint = \"http://ana:secret@c\"",
                                               "otlp_period = \"25h\"",
                                               "log_level = \"loud\"",
                                               "cpu_budget = 5000",
                                               "cost_database = \"postgresql://ana:secret@c/costs\""});
  const auto given = [&](const std::string& place, const std::string& name, const std::string& value) {
    coordinator::Settings settings;
    const auto lookup = [&](const std::string& asked) { return asked == name ? std::optional(value) : std::nullopt; };
    const auto& table = coordinator::coordinator_settings();
    const Status read =
        place == "flag" ? table.set_from_flag(settings, name, value) : table.set_from_environment(settings, lookup);
    text += place + " " + name + " = " + value + "\n=> " + (read.ok() ? "ok" : read.error().message) + "\n\n";
  };
  given("variable", "TRIMTAB_LISTEN", "nowhere");
  given("variable", "TRIMTAB_MAX_FRAME", "tiny");
  given("variable", "TRIMTAB_LOG_FILE", "");
  given("variable", "TRIMTAB_NOTHING_OF_OURS", "x");
  given("flag", "listen", "nowhere");
  given("flag", "tokenz", "x");
  holds("coordinator_files", text);
}

TEST_CASE("what is said of job files that are wrong") {
  const std::string text =
      of_reader("job", {"\nworldsize = 2",
                        "zzz = 1",
                        "[command]\ntrain = [\"x\"]",
                        "[trials]\nmeasure_step = 2",
                        "[knobs]\nrecompte = true",
                        "[sofware]\nnccl = \"2\"",
                        "steps = 1\nsteps = 2",
                        "steps = ",
                        "a.b.c.d.e.f.g.h.i = 1",
                        "schema = \"trimtab.job/2\"\nzzz = 1",
                        "schema = 2",
                        "name = \"a b\"",
                        "name = \"..\"",
                        "world_size = 65537",
                        "world_size = 2.5",
                        "world_size = \"2\"",
                        "memory_limit = \"700 potatoes\"",
                        "memory_limit = \"0\"",
                        "memory_limit = 0.5",
                        "mode = \"turbo\"",
                        "class = \"learning\"",
                        "delivery = \"post\"",
                        "walltime_s = 1e8",
                        "hang_s = 0",
                        "[trials]\nblocks = 0",
                        "[trials]\nblocks = 1000001",
                        "[trials]\nlook_every_s = 0.5",
                        "[trials]\nminimum_gain = 1",
                        "[trials]\noverhead = 1.5",
                        "[trials]\nafter = \"lunch\"",
                        "[trials.blocks]\nx = 1",
                        "[crashes]\nlimit = 100",
                        "[crashes]\nwithin_steps = 2000000000",
                        "[commands]\ntrain = \"x\"",
                        "[commands]\ntrain = [\"x\", 1]",
                        "[commands]\ntrain = [\"t\"]\nrun = [\"x\"]",
                        "target = \"" + std::string(80, 't') + "\"\nsteps = \"" + std::string(80, 's') + "\"",
                        "[environment]\nA = 1",
                        "[environment.A]\nB = \"1\"",
                        "[software]\nnccl = 2.28",
                        "[knobs]\nown = 3",
                        "[knobs.own]\nA = 1",
                        "[knobs.own]\nA = []",
                        "[knobs.own]\nA = [[1]]",
                        "[knobs.own]\nRANK = [1, 2]",
                        "[knobs.own]\n\"flag:--x\" = [true, false]",
                        "[knobs.own]\nA = [1]\n[knobs.own_class]\nA = \"any\"",
                        "[knobs.own_class]\nA = \"exact\"",
                        "[knobs.own]\nA = [1, 2]\n[knobs.own_when]\nA = [\"B\"]",
                        "commands.train = [\"python3\", \"trainer/train.py\"]\nknobs.memory_switches = true"});
  std::string whole;
  for (const char* file : {"", "name = \"j\"", "schema = \"trimtab.job/1\"", "schema = \"trimtab.job/1\"\nname = \"j\"",
                           "schema = \"trimtab.job/1\"\nname = \"j\"\ncommands.train = [\"t\"]"}) {
    const auto read = parse_job_toml(file, "FILE", "/d");
    whole += std::string("the whole file\n") + file + "\n=> " + (read.ok() ? "ok" : read.error().message) + "\n\n";
  }
  holds("job_files", text + whole);
}

TEST_CASE("what is said of scenarios that are wrong") {
  const std::string text =
      of_reader("scenario", {"",
                             "\ntrut = 1",
                             "[trut]",
                             "zzz = 1",
                             "[truth]\ncomputaton = 1",
                             "[truth]\nzzz = 1",
                             "[noise]\nstep = -1",
                             "[noise]\nstep = 1\nstep = 2",
                             "truth = [",
                             "a.b.c.d.e.f.g.h.i = 1",
                             "[noise]\nstep = \"1\"",
                             "[noise]\noutlier_every = 0.5",
                             "[noise]\noutlier_every = 3000000000",
                             "[switch]\ncrash = 0.6\nhang = 0.6",
                             "[switch]\nbytes_per_second = 0",
                             "[faults]\nclock_speed = 0",
                             "[truth]\n[truth.error]\na = 1",
                             "[drift]\nkind = \"lost\"",
                             "drift = [1]",
                             "[[drift]]",
                             "[[drift]]\nkind = \"flood\"",
                             "[[drift]]\nkind = 1",
                             "[[drift]]\nkind = \"lost\"",
                             "[[drift]]\nkind = \"joined\"",
                             "[[drift]]\nkind = \"link\"",
                             "[[drift]]\nkind = \"link\"\nlevel = \"inter_node\"\nnode = \"n1\"",
                             "[[drift]]\nkind = \"coordinator\"\n[[drift]]\nkind = \"device\"\nshare = 0",
                             "[[drift]]\nkind = \"device\"\nat_step = -1",
                             "[[drift]]\nkind = \"device\"\nlatency_us = 1e13",
                             "[[drift]]\nkind = \"device\"\nlatency = 1"});
  holds("scenario_files", text);
}

TEST_CASE("what both daemons say of their flags") {
  for (const std::string name : {"trimtab-agent", "trimtab-coordinator"}) {
    holds(name + "_help", daemon(name, "--help"));
    std::string text;
    for (const char* arguments :
         {"--nonsense 1", "--log-levle info", "--log-level", "--log-level info --log-level warn", "--log-level loud",
          "--config /nonexistent/FILE.toml", "word"}) {
      text += arguments + ("\n=> " + daemon(name, arguments)) + "\n";
    }
    holds(name + "_flags", text);
  }
}
