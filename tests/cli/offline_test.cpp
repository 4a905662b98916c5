#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "scene.hpp"
#include "schema/cost_database.hpp"
#include "schema/job.hpp"

using nlohmann::json;
using namespace trimtab;

namespace {

std::vector<std::string> search_arguments(const Scene& scene) {
  return scene.with({"search", "--budget", "3000ev", "--seed", "7", "--json"});
}

}  // namespace

TEST_CASE("what is written to a link or a device leaves it what it is") {
  const Scratch scratch;
  const std::string target = scratch.path("kept.json");
  const std::string link = scratch.path("link.json");
  std::ofstream(target) << "old, and longer than what comes";
  std::filesystem::create_symlink(target, link);
  const std::string plan = scratch.path("plan.json");
  std::ofstream(plan) << R"({"schema":"trimtab.plan/1","model":"m","global_batch":1,"microbatch":1,"stages":[)"
                      << R"({"devices":[0],"segments":[{"operators":[0,1]}]}]})";
  const auto exported = [&](const std::string& out) {
    return ::trimtab_program({"plan", "export", plan, "--out", out});
  };
  REQUIRE(exported(link).err == "wrote " + link + "\n");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(content_of(target).starts_with("{"));
  const std::string device = scratch.path("null");
  std::filesystem::create_symlink("/dev/null", device);
  CHECK(exported(device).exit_code == 0);
  CHECK(std::filesystem::is_character_file(device));
  const std::string pipe = scratch.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  CHECK(exported(pipe).exit_code == 0);
  std::string read(1024, '\0');
  read.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(reader, read.data(), read.size()), 0)));
  ::close(reader);
  CHECK(read.find("trimtab.plan/1") != std::string::npos);
}

TEST_CASE("search and evaluate agree on the best plan, and it is no worse than a plain one") {
  const Scene scene;
  const Outcome searched = trimtab_program(search_arguments(scene));
  INFO(searched.err);
  REQUIRE(searched.exit_code == 0);
  const json found = json::parse(searched.out);
  CHECK(found["schema"] == "trimtab.search/1");
  CHECK(found["seed"] == 7);
  REQUIRE_FALSE(found["plans"].empty());
  const json& best = found["plans"][0];
  const std::string plan = scene.scratch.file("best.json", best["plan"].dump());
  const Outcome evaluated = trimtab_program(scene.with({"evaluate", "--plan", plan, "--json"}));
  INFO(evaluated.err);
  REQUIRE(evaluated.exit_code == 0);
  const json prediction = json::parse(evaluated.out);
  CHECK(prediction["iteration_ms"].get<double>() == Approx(best["prediction"]["iteration_ms"].get<double>()));
  const json plain = json::parse(trimtab_program(scene.with({"evaluate", "--plan", scene.plan, "--json"})).out);
  CHECK(prediction["iteration_ms"].get<double>() <= plain["iteration_ms"].get<double>() + 1e-9);
}

TEST_CASE("steps measured under other plans correct what is predicted of a plan") {
  const Scene scene;
  const auto plan_of = [&](int microbatch) {
    json plan = json::parse(to_json(even_pipeline()));
    plan["microbatch"] = microbatch;
    return plan;
  };
  const auto predicted = [&](int microbatch, const std::vector<std::string>& more) {
    std::vector<std::string> words{"evaluate", "--plan", scene.scratch.file("one.json", plan_of(microbatch).dump()),
                                   "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = trimtab_program(scene.with(words));
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return json::parse(outcome.out)["iteration_ms"].get<double>();
  };
  std::string lines;
  for (const int microbatch : {1, 2, 4}) {
    lines += json{{"plan", plan_of(microbatch)}, {"step_s", 1.3e-3 * predicted(microbatch, {})}}.dump() + "\n";
  }
  const double before = predicted(8, {});
  const double after = predicted(8, {"--measured", scene.scratch.file("measured", lines)});
  CHECK(after > 1.2 * before);
  CHECK(after < 1.4 * before);
  const auto refuses = [&](const std::string& text, const std::string& why, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"evaluate", "--plan", scene.plan, "--measured", scene.scratch.file("bad", text)};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = trimtab_program(scene.with(words));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find(why) != std::string::npos);
  };
  refuses(lines + "{\"step_s\": 1}\n", "bad:4");
  refuses(json{{"plan", plan_of(1)}, {"step_s", 0}}.dump(), "step_s");
  refuses(json{{"plan", plan_of(3)}, {"step_s", 1}}.dump(), "breaks");
  refuses("\n", "found none");
  refuses(lines, "give one of them", {"--calibration", "job"});
  refuses(lines, "native", {"--cost-model", "aceso"});
}

TEST_CASE("the same seed and budget give the same plans") {
  const Scene scene;
  json first = json::parse(trimtab_program(search_arguments(scene)).out);
  json second = json::parse(trimtab_program(search_arguments(scene)).out);
  CHECK(first["plans"] == second["plans"]);
}

TEST_CASE("a search for a target gives plans that export to it, and says what its limits cost") {
  const Scene scene;
  const auto words = scene.with({"search", "--budget", "6000ev", "--target", "ddp"});
  auto as_json = words;
  as_json.emplace_back("--json");
  const Outcome searched = trimtab_program(as_json);
  INFO(searched.err);
  REQUIRE(searched.exit_code == 0);
  const json found = json::parse(searched.out);
  CHECK(found["strategy"] == "target");
  REQUIRE_FALSE(found["plans"].empty());
  const double best = found["plans"][0]["prediction"]["iteration_ms"].get<double>();
  CHECK(found["target"]["name"] == "ddp");
  CHECK(found["target"]["free_ms"].get<double>() <= best);
  CHECK(found["target"]["limits_cost"].get<double>() ==
        Approx(best / found["target"]["free_ms"].get<double>() - 1).margin(1e-9));
  for (const json& one : found["plans"]) {
    const std::string plan = scene.scratch.file("one.json", one["plan"].dump());
    const Outcome exported = trimtab_program({"plan", "export", plan, "--to", "ddp", "--model", scene.model});
    INFO(exported.err);
    CHECK(exported.exit_code == 0);
  }
  CHECK(trimtab_program(words).out.find("he limits of ddp cost") != std::string::npos);
  auto wrong = words;
  wrong.insert(wrong.end(), {"--strategy", "unified"});
  CHECK(trimtab_program(wrong).exit_code == 2);
}

TEST_CASE("knobs that are not named stay fixed in a search for a target too") {
  const Scene scene;
  const Outcome searched = trimtab_program(
      scene.with({"search", "--budget", "6000ev", "--json", "--target", "ddp", "--knobs", "data_parallel"}));
  INFO(searched.err);
  REQUIRE(searched.exit_code == 0);
  const json found = json::parse(searched.out);
  REQUIRE_FALSE(found["plans"].empty());
  const auto stays_whole = [](const json& plan) {
    for (const json& stage : plan["stages"]) {
      for (const json& segment : stage["segments"]) CHECK(segment.value("sharded", "none") == "none");
    }
  };
  const auto microbatch = found["plans"][0]["plan"]["microbatch"].get<int>();
  for (const json& one : found["plans"]) {
    CHECK(one["plan"]["microbatch"] == microbatch);
    stays_whole(one["plan"]);
  }
  // The free space has no more of them: what it is faster by is the target's doing.
  stays_whole(found["target"]["free_plan"]);
}

TEST_CASE("knobs that are not named stay fixed") {
  const Scene scene;
  const Outcome searched =
      trimtab_program(scene.with({"search", "--budget", "2000ev", "--json", "--knobs", "data_parallel,microbatch"}));
  INFO(searched.err);
  REQUIRE(searched.exit_code == 0);
  const json plans = json::parse(searched.out)["plans"];
  REQUIRE(plans.size() > 1);  // the microbatch is free
  for (const json& ranked : plans) {
    CHECK(ranked["plan"]["stages"].size() == 1);
    const json& segment = ranked["plan"]["stages"][0]["segments"][0];
    CHECK(segment.value("recompute", json::array()).empty());
  }
}

TEST_CASE("search explains itself in words and keeps its JSON clean") {
  const Scene scene;
  auto arguments = search_arguments(scene);
  arguments.push_back("--explain");
  const Outcome searched = trimtab_program(arguments);
  CHECK(json::accept(searched.out));
  CHECK_FALSE(searched.err.empty());
  arguments.erase(std::find(arguments.begin(), arguments.end(), "--json"));
  const std::string words = trimtab_program(arguments).out;
  CHECK(words.find("plans evaluated") != std::string::npos);
  CHECK(words.find(" -> ") != std::string::npos);  // of an iteration
}

TEST_CASE("nothing that fits is a no, with the reason") {
  const Scene scene;
  const std::string tiny = scene.scratch.file("tiny.json", to_json(two_devices(1'000'000)));
  const Outcome searched = trimtab_program({"search", "--model", scene.model, "--cluster", tiny, "--costs", scene.costs,
                                            "--fingerprint", hash(fingerprint_of("one")), "--budget", "500ev"});
  CHECK(searched.exit_code == 1);
  CHECK(searched.err.find("no plan fits") != std::string::npos);
  CHECK(searched.err.find("too much") != std::string::npos);
  CHECK(searched.err.find("it would fit with") != std::string::npos);
  const Outcome evaluated = trimtab_program(
      {"evaluate", "--model", scene.model, "--cluster", tiny, "--costs", scene.costs, "--plan", scene.plan, "--json"});
  CHECK(evaluated.exit_code == 1);
  CHECK(json::parse(evaluated.out)["feasible"] == false);
}

TEST_CASE("row 14: evaluate gives no number for a plan that nothing prices, and says what is missing") {
  const Scene scene;
  Plan split = even_pipeline();  // on two tensor-parallel ranks, which nobody measured
  split.stages = {{{0, 1}, {split.stages[0].segments[0]}}};
  split.stages[0].segments[0].operators = {0, 6};
  split.stages[0].segments[0].tp = 2;
  const std::string plan = scene.scratch.file("split.json", to_json(split));
  const std::string svg = scene.scratch.path("split.svg");
  const Outcome evaluated = trimtab_program(scene.with({"evaluate", "--plan", plan, "--json", "--gantt", svg}));
  CHECK(evaluated.exit_code == 1);
  const json prediction = json::parse(evaluated.out);
  CHECK(prediction["iteration_ms"].is_null());
  CHECK(prediction["feasible"] == false);
  CHECK(prediction["infeasible_reason"] == "not priced");
  CHECK_FALSE(prediction["missing_costs"].empty());
  CHECK_FALSE(std::ifstream(svg).good());
  CHECK(evaluated.err.find("nothing is drawn") != std::string::npos);
  const Outcome told = trimtab_program(scene.with({"evaluate", "--plan", plan, "--explain"}));
  CHECK(told.exit_code == 1);
  CHECK(told.out.find("not priced: missing is operator_") != std::string::npos);
  CHECK(told.out.find("operator_forward mlp-h64 float32 samples=2 tp=2 default (benchmark: ") != std::string::npos);
  CHECK(told.out.find("--allow-estimates") != std::string::npos);
  CHECK(told.out.find(" ms") == std::string::npos);
  // The rules do not ask for a price.
  CHECK(trimtab_program(scene.with({"plan", "check", plan})).exit_code == 0);
}

TEST_CASE("evaluate draws a Gantt chart and writes a trace") {
  const Scene scene;
  const std::string svg = scene.scratch.path("plan.svg");
  const std::string trace = scene.scratch.path("trace.json");
  const Outcome evaluated =
      trimtab_program(scene.with({"evaluate", "--plan", scene.plan, "--gantt", svg, "--trace", trace, "--explain"}));
  INFO(evaluated.err);
  REQUIRE(evaluated.exit_code == 0);
  CHECK(evaluated.out.find("stage 0: computes") != std::string::npos);
  CHECK(content_of(svg).starts_with("<svg xmlns="));
  const json events = json::parse(content_of(trace))["traceEvents"];
  // Two stages, four microbatches, forward and backward each.
  CHECK(std::count_if(events.begin(), events.end(),
                      [](const json& e) { return e["ph"] == "X" && e["cat"] == "forward"; }) == 8);
}

TEST_CASE("a plan is shown, compared and exported") {
  const Scene scene;
  const Outcome shown = trimtab_program({"plan", "show", scene.plan, "--model", scene.model});
  CHECK(shown.exit_code == 0);
  CHECK(shown.out.find("layer0 .. layer2") != std::string::npos);
  Plan other = even_pipeline();
  other.microbatch = 4;
  const std::string changed = scene.scratch.file("other.json", to_json(other));
  const json difference = json::parse(trimtab_program({"plan", "diff", scene.plan, changed, "--json"}).out);
  CHECK(difference["same"] == false);
  CHECK(difference["differences"][0]["field"] == "microbatch");
  CHECK(trimtab_program({"plan", "diff", scene.plan, scene.plan}).out == "The plans mean the same.\n");
  const std::string out = scene.scratch.path("exported.json");
  CHECK(trimtab_program({"plan", "export", scene.plan, "--to", "trainer", "--out", out}).exit_code == 0);
  CHECK(json::parse(content_of(out)) == json::parse(to_json(even_pipeline())));
  CHECK(trimtab_program({"plan", "export", scene.plan, "--to", "megatron"}).exit_code == 2);
}

TEST_CASE("a check names every broken rule") {
  const Scene scene;
  CHECK(trimtab_program({"plan", "check", scene.plan, "--model", scene.model, "--cluster", scene.cluster}).exit_code ==
        0);
  CHECK(trimtab_program(scene.with({"plan", "check", scene.plan})).out.find("bottleneck") != std::string::npos);
  Plan broken = even_pipeline();
  broken.model = "another";
  broken.stages[1].devices = {7};
  const std::string path = scene.scratch.file("broken.json", to_json(broken));
  const Outcome checked =
      trimtab_program({"plan", "check", path, "--model", scene.model, "--cluster", scene.cluster, "--json"});
  CHECK(checked.exit_code == 1);
  const json answer = json::parse(checked.out);
  CHECK(answer["valid"] == false);
  CHECK(answer["broken"].size() >= 2);
}

TEST_CASE("a check says that a plan's own settings are a job's to check") {
  const Scene scene;
  Plan plan = even_pipeline();
  plan.own = {{"env:OMP_NUM_THREADS", "2"}};
  const std::string path = scene.scratch.file("own.json", to_json(plan));
  std::vector<std::string> words{"plan", "check", path, "--model", scene.model, "--cluster", scene.cluster};
  const std::string told = "Its own settings (OMP_NUM_THREADS=2) were not checked";
  CHECK(trimtab_program(words).out.find(told) != std::string::npos);
  words.insert(words.end(), {"--target", "trainer"});
  const std::string of_target = trimtab_program(words).out;
  CHECK(of_target.find("target trainer runs all of it but its own settings\n" + told) != std::string::npos);
  words.emplace_back("--json");
  CHECK(json::parse(trimtab_program(words).out)["unchecked_own"] == json{{"env:OMP_NUM_THREADS", "2"}});
}

TEST_CASE("a check for a target names the knob that it refuses, and one for none says who runs the plan") {
  const Scene scene;
  const std::vector<std::string> where{"--model", scene.model, "--cluster", scene.cluster};
  const auto check = [&where](const std::string& plan, std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "check", plan});
    more.insert(more.end(), where.begin(), where.end());
    return trimtab_program(more);
  };
  CHECK(check(scene.plan, {"--target", "trainer"}).out.find("target trainer runs all of it") != std::string::npos);
  CHECK(check(scene.plan, {}).out.find("is valid. Honoured by trainer") != std::string::npos);
  CHECK(check(scene.plan, {"--target", "trianer"}).exit_code == 2);

  Plan switched = even_pipeline();
  switched.stages[1].segments[0].switches.offload_optimizer = true;
  Switches& switches = switched.stages[1].segments[0].switches;
  switches.lazy_prefetch = {switched.stages[1].segments[0].operators};
  const std::string path = scene.scratch.file("switched.json", to_json(switched));
  const Outcome refused = check(path, {"--target", "trainer"});
  CHECK(refused.exit_code == 1);
  CHECK(refused.out.find("target trainer does not honour stages[1].segments[0].switches.lazy_prefetch: operator ") !=
        std::string::npos);
  const json answer = json::parse(check(path, {"--target", "trainer", "--json"}).out);
  CHECK(answer["valid"] == false);
  CHECK(answer["target"] == "trainer");
  const Outcome valid = check(path, {});
  CHECK(valid.exit_code == 0);
  CHECK(valid.out.find("is valid. Honoured by no target.\n  not trainer: stages[1]") != std::string::npos);
  CHECK(valid.out.find("can be executed") == std::string::npos);
  switches.partition_parameters = switches.economical_forward = switches.economical_backward = switches.lazy_prefetch;
  const std::string whole = scene.scratch.file("whole.json", to_json(switched));
  CHECK(check(whole, {"--target", "trainer"}).exit_code == 0);
  const json honoured = json::parse(check(scene.plan, {"--json"}).out)["unhonoured"];
  CHECK(honoured["trainer"].empty());
  CHECK_FALSE(honoured["ddp"].empty());  // it has one stage
}

TEST_CASE("what was taken over of near hardware is told, priced and explained, and is nowhere exported") {
  const Scene scene;
  const std::string fresh = hash(fingerprint_of("two"));
  const std::string near = hash(fingerprint_of("one"));
  CostDatabase database = CostDatabase::open(scene.costs, OpenMode::kReadWrite).value();
  CostKey process;
  process.kind = CostKind::kProcessBytes;
  process.subject = "process";
  Cost measured{process, {}};
  measured.statistics.add(50'000'000);
  REQUIRE(database.add_batch({"two", 1}, fingerprint_of("two"), "benchmark", {measured}).ok());
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--fingerprint", fresh});
    return trimtab_program(arguments);
  };
  const std::vector<std::string> evaluates = scene.with({"evaluate", "--plan", scene.plan, "--explain"});
  const std::string shown = run({"db", "show", scene.costs}).out;
  CHECK_FALSE(run(evaluates).exit_code == 0);
  json findings = json::array();
  for (const char* const of : {"computation", "memory", "links inside nodes", "overlap", "of a later release"}) {
    findings.push_back({{"of", of}, {"verdict", "scaled"}, {"factor", 1.5}, {"doubt", 0.03}, {"probes", 4}});
  }
  const json fact = {
      {"from", near}, {"differences", "driver 2 instead of 1"}, {"costs", 7}, {"probes", 20}, {"findings", findings}};
  REQUIRE(database.put_fact(fresh, kTakenOverFact, fact.dump()).ok());

  CHECK(run({"db", "show", scene.costs})
            .out.find("  priced with 7 costs of hardware " + near +
                      " (driver 2 instead of 1), not measured here: computation 1.50 times "
                      "what it was (± 6 %, 4 probes), ") != std::string::npos);
  CHECK(json::parse(run({"db", "show", scene.costs, "--json"}).out)["fingerprints"][0]["taken_over"]["from"] == near);
  const Outcome explained = run(evaluates);
  INFO(explained.out << explained.err);
  CHECK(explained.exit_code == 0);
  CHECK(explained.out.find("taken over from " + near + ", times 1.500 (± 6 %)") != std::string::npos);
  const std::string csv = run({"db", "export", scene.costs}).out;
  CHECK(csv.find("operator_forward") == std::string::npos);

  REQUIRE(database.put_fact(fresh, kTakenOverFact, "[1]").ok());  // as another release may have it
  CHECK(run({"db", "show", scene.costs}).out == shown);
}

TEST_CASE(
    "a cost whose own values say that the machine was disturbed is told as such, where costs are shown and explained") {
  const Scene scene;
  CostDatabase database = CostDatabase::open(scene.costs, OpenMode::kReadWrite).value();
  const auto time_of = [](CostKind kind, std::int32_t samples, std::int64_t often, std::int64_t else_ns) {
    CostKey key;
    key.kind = kind;
    key.subject = "mlp-h64";
    key.dtype = "float32";
    key.samples = samples;
    Cost cost{key, {}};
    for (int i = 0; i < 40; ++i) cost.statistics.add(i % 20 < 11 ? often : else_ns);
    return cost;
  };
  const std::vector<Cost> loaded{time_of(CostKind::kOperatorForward, 2, 10'000'000, 19'000'000)};
  const std::vector<Cost> quiet{time_of(CostKind::kOperatorBackward, 64, 10'000'000, 10'100'000)};
  REQUIRE(database.add_batch({"loaded", 1}, fingerprint_of("one"), "benchmark", loaded).ok());
  REQUIRE(database.add_batch({"quiet", 1}, fingerprint_of("one"), "training alone host-clock", quiet).ok());
  const std::string told = "benchmark, disturbed (the middle half of its values spans 9";
  const std::string shown = trimtab_program({"db", "show", scene.costs}).out;
  INFO(shown);
  CHECK(shown.find(told) != std::string::npos);
  CHECK(shown.find("training, alone, host's clock, disturbed") == std::string::npos);
  const std::string explained = trimtab_program(scene.with({"evaluate", "--plan", scene.plan, "--explain"})).out;
  INFO(explained);
  CHECK(explained.find(told) != std::string::npos);
}

TEST_CASE("databases are shown, merged once, compared and exported") {
  const Scene scene;
  const std::string slower = scene.database("slower.db", "one", 1.5);
  const json shown = json::parse(trimtab_program({"db", "show", scene.costs, "--json"}).out);
  REQUIRE(shown["fingerprints"].size() == 1);
  CHECK(shown["fingerprints"][0]["fingerprint"] == hash(fingerprint_of("one")));
  CHECK(shown["fingerprints"][0]["kinds"]["operator_forward"]["sources"][0]["source"] == "benchmark");
  CHECK(trimtab_program({"db", "show", scene.costs}).out.find("operator_forward") != std::string::npos);

  const Outcome difference = trimtab_program({"db", "diff", scene.costs, slower, "--json"});
  INFO(difference.err);
  CHECK_FALSE(json::parse(difference.out)["differences"].empty());
  CHECK(trimtab_program({"db", "diff", scene.costs, scene.costs}).out.find("No cost differs") != std::string::npos);

  const std::string merged = scene.scratch.path("merged.db");
  CHECK(json::parse(trimtab_program({"db", "merge", merged, scene.costs, slower, "--json"}).out)["new_batches"] == 2);
  CHECK(json::parse(trimtab_program({"db", "merge", merged, slower, scene.costs, "--json"}).out)["new_batches"] == 0);

  const Outcome csv = trimtab_program({"db", "export", scene.costs});
  CHECK(csv.out.starts_with("fingerprint,source,kind,"));
  CHECK(json::accept(trimtab_program({"db", "export", scene.costs, "--to", "json"}).out));
}

TEST_CASE("what was measured of NCCL is exported in its tuner's format") {
  const Scene scene;
  const Outcome nothing = trimtab_program({"db", "export", scene.costs, "--to", "nccl-tuner"});
  CHECK(nothing.exit_code == 2);
  CHECK(nothing.err.find("nothing to choose for NCCL") != std::string::npos);

  const std::string measured = scene.scratch.path("nccl.db");
  std::vector<Cost> costs;
  for (const auto& [algorithm, ns] : {std::pair{"ring", 900}, std::pair{"nvls", 700}}) {
    Cost& cost = costs.emplace_back();
    cost.key.kind = CostKind::kCollective;
    cost.key.subject = "all_reduce";
    cost.key.bytes = 1 << 20;
    cost.key.group_size = 8;
    cost.key.placement = "intra_node";
    cost.key.algorithm = algorithm;
    cost.key.protocol = "simple";
    cost.key.channels = 16;
    for (int i = 0; i < 10; ++i) cost.statistics.add(ns + i);
  }
  {
    auto database = CostDatabase::open(measured, OpenMode::kCreate);
    REQUIRE(database.ok());
    REQUIRE(database->add_batch({"one", 1}, fingerprint_of("one"), "passive", costs).ok());
  }
  const std::string expected =
      "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n"
      "allreduce,524288,2097152,nvls,simple,-1,1,8,-1,-1\n";
  CHECK(trimtab_program({"db", "export", measured, "--to", "nccl-tuner"}).out == expected);
  const std::string file = scene.scratch.path("nccl_tuner.conf");
  CHECK(trimtab_program({"db", "export", "--to", "nccl-tuner", measured, "-o", file}).exit_code == 0);
  std::ifstream input(file);
  CHECK(std::string((std::istreambuf_iterator<char>(input)), std::istreambuf_iterator<char>()) == expected);
}

TEST_CASE("a database of several machines is used by fingerprint") {
  const Scene scene;
  const std::string other = scene.database("other.db", "two", 2.0);
  const std::string both = scene.scratch.path("both.db");
  REQUIRE(trimtab_program({"db", "merge", both, scene.costs, other}).exit_code == 0);
  const auto evaluate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"evaluate", "--model", scene.model, "--costs", both, "--plan", scene.plan, "--json"});
    return trimtab_program(more);
  };
  Cluster nameless = two_devices(Bytes{1} << 30);
  nameless.nodes[0].fingerprint = "0000000000000000";
  const std::string cluster = scene.scratch.file("nameless.json", to_json(nameless));
  const Outcome unclear = evaluate({"--cluster", cluster});
  CHECK(unclear.exit_code == 2);
  CHECK(unclear.err.find(hash(fingerprint_of("two"))) != std::string::npos);
  const json fast = json::parse(evaluate({"--cluster", cluster, "--fingerprint", hash(fingerprint_of("one"))}).out);
  const json slow = json::parse(evaluate({"--cluster", cluster, "--fingerprint", hash(fingerprint_of("two"))}).out);
  CHECK(slow["iteration_ms"].get<double>() > 1.5 * fast["iteration_ms"].get<double>());
  CHECK(json::parse(evaluate({"--cluster", scene.cluster}).out) == fast);
}

TEST_CASE("init writes a job file for a command, says what it took it for, and never overwrites") {
  const Scratch scratch;
  scratch.file("model.py", "import torch\n\ndef layers():\n  pass\n");
  const std::string script = scratch.file("train.py", "run = trimtab.parallel.load(batch_size=4)\n");
  const std::string out = scratch.path("job.toml");
  const std::vector<std::string> command{"init", "--out", out,       "--json", "--", "torchrun", "--nproc_per_node",
                                         "2",    script,  "--steps", "50"};
  const Outcome outcome = trimtab_program(command);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json said = json::parse(outcome.out);
  CHECK(said["target"] == "ddp");
  CHECK(said["mode"] == "recommend");
  CHECK(said["world_size"] == 2);
  const auto job = trimtab::load_job(out);
  REQUIRE((job.ok() ? "" : job.error().message) == "");
  CHECK(job->describe[3] == "model:layers");
  CHECK(job->environment.at("PYTHONPATH").starts_with(script.substr(0, script.rfind('/'))));
  const std::string written = content_of(out);
  const std::string python = job->train[5];
  CHECK((python == "python3" || python.starts_with("/")));  // torchrun's own, where there is one
  const Outcome again = trimtab_program(command);
  CHECK(again.exit_code == 2);
  CHECK(again.err.find("is there already") != std::string::npos);
  CHECK(content_of(out) == written);
  // Words behind -- are the command's, also those that look like a list or an option of ours.
  const std::string odd = scratch.path("odd.toml");
  REQUIRE(trimtab_program({"init", "--out", odd, "--", "python3", script, "[1,2]", "--json"}).exit_code == 0);
  CHECK(trimtab::load_job(odd)->train.back() == "--json");
  CHECK(trimtab::load_job(odd)->train.rbegin()[1] == "[1,2]");
  const Outcome missing = trimtab_program({"init", "--out", scratch.path("b.toml"), "--", "python3", "no-such.py"});
  CHECK(missing.exit_code == 2);
  CHECK(missing.err.find("no-such.py") != std::string::npos);
}

TEST_CASE("init takes a job of accelerate's launcher without a file for its replicas") {
  const Scratch scratch;
  const std::string script = scratch.file("train.py", "parser.add_argument('--per_device_train_batch_size')\n");
  const Outcome outcome =
      trimtab_program({"init", "--out", scratch.path("job.toml"), "--json", "--", "accelerate", "launch",
                       "--num_processes", "2", script, "--per_device_train_batch_size", "4"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json said = json::parse(outcome.out);
  CHECK(said["target"] == "accelerate");
  CHECK(said["remarks"].dump().find("no plan is written: the model is not known") != std::string::npos);
}

TEST_CASE("init looks into a shell script for the command that launches") {
  const Scratch scratch;
  const std::string train = scratch.file("train.py", "DistributedDataParallel(model)\n");
  const std::string shell = scratch.file(
      "run.sh", "export OMP_NUM_THREADS=2\nPROCESSES=4\ntorchrun --nproc_per_node $PROCESSES " + train + " --lr $1\n");
  const std::string out = scratch.path("job.toml");
  const Outcome outcome = trimtab_program({"init", "--out", out, "--json", "--", "bash", shell, "0.1"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json said = json::parse(outcome.out);
  CHECK(said["target"] == "ddp");
  CHECK(said["world_size"] == 4);
  CHECK(said["remarks"][0].get<std::string>().find("run.sh, line 3;") != std::string::npos);
  CHECK(said["remarks"][0].get<std::string>().ends_with("into the file: $1"));
  const auto job = trimtab::load_job(out);
  REQUIRE((job.ok() ? "" : job.error().message) == "");
  CHECK(job->environment.at("OMP_NUM_THREADS") == "2");
  CHECK(job->train.rbegin()[2] == train);
  // Its Python script is not there: the shell script is the job.
  const std::string lost = scratch.file("lost.sh", "torchrun --nproc_per_node 4 elsewhere.py\n");
  const std::string other = scratch.path("other.toml");
  REQUIRE(trimtab_program({"init", "--out", other, "--", "bash", lost}).exit_code == 0);
  CHECK(trimtab::load_job(other)->train == std::vector<std::string>{"bash", lost});
}

TEST_CASE("a launch script says its model and its plan, and a configuration of transformers its model") {
  const Scratch scratch;
  const std::string script = scratch.file(
      "train.sh",
      "MODEL=(--num-layers 4 --hidden-size ${HIDDEN:-64} --num-attention-heads 4 --seq-length 64 --vocab-size 100)\n"
      "BATCH=\"--micro-batch-size 2 --global-batch-size $((4 * 16))\"\n"
      "torchrun --nproc_per_node 4 --nnodes 2 pretrain_gpt.py \"${MODEL[@]}\" $BATCH --position-embedding-type rope "
      "\\\n"
      "  --tensor-model-parallel-size 2 --bf16\n");
  const Outcome model = trimtab_program({"model", "extract", "--megatron", script});
  INFO(model.err);
  REQUIRE(model.exit_code == 0);
  CHECK(json::parse(model.out)["operators"].size() == 10);
  const Outcome plan = trimtab_program({"plan", "import", script});
  INFO(plan.err);
  REQUIRE(plan.exit_code == 0);
  CHECK(json::parse(plan.out)["stages"][0]["segments"][0]["dp"] == 4);  // of eight ranks, as its launcher says
  const Outcome none = trimtab_program({"plan", "import", scratch.file("empty.sh", "echo hello\n")});
  CHECK(none.exit_code == 2);
  const std::string config = scratch.file(
      "config.json",
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100})");
  const Outcome found = trimtab_program(
      {"model", "extract", "--hf", config, "--sequence", "128", "--global-batch", "8", "--name", "tiny"});
  INFO(found.err);
  REQUIRE(found.exit_code == 0);
  CHECK(json::parse(found.out)["name"] == "tiny");
  CHECK(trimtab_program({"model", "extract", "--hf", config, "--sequence", "128"}).err.find("--global-batch") !=
        std::string::npos);
  CHECK(trimtab_program({"model", "extract", "--hf", config, "--module", "m:f"}).exit_code == 2);
}
