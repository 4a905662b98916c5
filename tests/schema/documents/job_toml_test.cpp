#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/url.hpp"
#include "sample_documents.hpp"
#include "schema/job.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

// Four lines in front, so that `text` begins at line 5.
std::string error_of(const std::string& text) {
  const auto job = parse_job_toml("schema = \"trimtab.job/1\"\nname = \"j\"\n\n# comment\n" + text, "job.toml", "/d");
  return job.ok() ? "" : job.error().message;
}

class Directory {
 public:
  Directory() : path_(std::filesystem::temp_directory_path() / ("trimtab-job-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("every key of job.toml is read") {
  const ParsedJob parsed = parse_job_toml(sample(DocumentKind::kJobToml), "job.toml", "/srv/jobs").value();
  const Job& job = parsed.job;
  CHECK(job.name == "gpt-cpu");
  CHECK(job.mode == JobMode::kAuto);
  CHECK(job.delivery == Delivery::kLive);
  CHECK(job.world_size == 2);
  CHECK(job.memory_limit == 700LL << 20);
  CHECK(job.steps == 400);
  CHECK(job.change_class == "rounding");
  CHECK(job.describe == std::vector<std::string>{"python3", "trainer/describe.py"});
  CHECK(job.benchmark.back() == "{rank}");
  CHECK(job.train.back() == "{plan}");
  CHECK(job.environment.at("OPENBLAS_NUM_THREADS") == "1");
  CHECK(job.software == std::map<std::string, std::string>{{"nccl", "2.28.9"}});
  CHECK_FALSE(job.knobs.uneven_stages);
  CHECK(job.knobs.tensor_parallel);
  CHECK(job.knobs.sharded);
  CHECK_FALSE(job.knobs.sub_batches);
  CHECK_FALSE(job.knobs.memory_switches);
  CHECK(job.trials.warmup_steps == 1);
  CHECK(job.trials.measure_steps == 4);
  CHECK(job.trials.blocks == 3);
  CHECK(job.trials.candidates == 2);
  CHECK(job.trials.max_trials == 6);
  CHECK(job.trials.minimum_gain == 0.05);
  CHECK(job.trials.deadline == std::chrono::milliseconds(2500));
  CHECK(job.trials.look_every == std::chrono::seconds(90));
  CHECK(job.trials.lasting == std::chrono::seconds(30));
  CHECK(job.trials.stop_after);
  CHECK(job.trials.loss_check_steps == 12);
  CHECK(job.crashes.limit == 5);
  CHECK(job.crashes.within == std::chrono::milliseconds(90500));
  CHECK(job.crashes.within_steps == 0);
}

TEST_CASE("relative paths of job.toml start at its directory, absolute ones stay") {
  const ParsedJob parsed = parse_job_toml(sample(DocumentKind::kJobToml), "job.toml", "/srv/jobs").value();
  CHECK(parsed.initial_plan_path == "/srv/jobs/initial.json");
  CHECK(parsed.model_path == "/models/gpt.json");
  CHECK(parsed.job.working_directory == "/srv/jobs/work");
  CHECK(parsed.job.target == "megatron");
  CHECK(parsed.job.strategy == "target");
  CHECK(parsed.job.checkpoint == "/srv/jobs/saved");
  CHECK(parsed.job.walltime == std::chrono::milliseconds(1500));
  CHECK(parsed.job.hang == std::chrono::milliseconds(500));
}

TEST_CASE("a checkpoint that is a URL stays one") {
  const std::string text =
      "schema = \"trimtab.job/1\"\nname = \"j\"\ncheckpoint = \"s3://bucket/a\"\n[commands]\n"
      "train = [\"t\"]\ndescribe = [\"d\"]\n";
  CHECK(parse_job_toml(text, "job.toml", "/srv/jobs").value().job.checkpoint == "s3://bucket/a");
  for (const char* path : {"saved", "/saved", "a b://x", "://x", "1s://x"}) CHECK_FALSE(is_url(path));
}

TEST_CASE("the working directory is the file's own where none is named") {
  const std::string text =
      "schema = \"trimtab.job/1\"\nname = \"j\"\n[commands]\ntrain = [\"t\"]\ndescribe = [\"d\"]\n";
  CHECK(parse_job_toml(text, "job.toml", "/srv/jobs").value().job.working_directory == "/srv/jobs");
  CHECK(parse_job_toml(text + "\n", "job.toml", "/srv/jobs/.").value().job.working_directory == "/srv/jobs");
}

TEST_CASE("an unknown key names the nearest known one, with file and line") {
  CHECK(error_of("worldsize = 2") == "job.toml:5: unknown key \"worldsize\"; did you mean \"world_size\"?");
  CHECK(error_of("[trials]\nmeasure_step = 2") ==
        "job.toml:6: unknown key \"trials.measure_step\"; did you mean \"trials.measure_steps\"?");
  CHECK(error_of("[knobs]\nrecompte = true") ==
        "job.toml:6: unknown key \"knobs.recompte\"; did you mean \"knobs.recompute\"?");
  CHECK(error_of("[command]\ntrain = [\"x\"]") == "job.toml:5: unknown key \"command\"; did you mean \"commands\"?");
  CHECK_THAT(error_of("[trials.blocks]\nx = 1"), Catch::StartsWith("job.toml:5: trials.blocks: expected an integer"));
}

TEST_CASE("an unsuitable value names its key, with file and line") {
  CHECK_THAT(error_of("mode = \"turbo\""), Catch::StartsWith("job.toml:5: mode: expected one of \"observe\""));
  CHECK_THAT(error_of("class = \"learning\""), Catch::StartsWith("job.toml:5: class: expected one of \"exact\""));
  CHECK_THAT(error_of("world_size = 2.5"), Catch::StartsWith("job.toml:5: world_size: expected an integer between 1"));
  CHECK_THAT(error_of("memory_limit = \"much\""),
             Catch::StartsWith("job.toml:5: memory_limit: expected a positive size"));
  CHECK_THAT(error_of("memory_limit = 0"), Catch::StartsWith("job.toml:5: memory_limit: expected a positive size"));
  CHECK_THAT(error_of("knobs = true"), Catch::StartsWith("job.toml:5: knobs: expected a table, found true"));
  CHECK_THAT(error_of("[commands]\ntrain = \"x\""), Catch::StartsWith("job.toml:6: commands.train: expected an array"));
  CHECK_THAT(error_of("[commands]\ntrain = [\"x\", 1]"),
             Catch::StartsWith("job.toml:6: commands.train: expected an array"));
  CHECK_THAT(error_of("[environment]\nA = 1"),
             Catch::StartsWith("job.toml:6: environment.A: expected a text in quotes"));
  CHECK_THAT(error_of("[software]\nnccl = 2.28"),
             Catch::StartsWith("job.toml:6: software.nccl: expected a text in quotes"));
  CHECK_THAT(error_of("[sofware]\nnccl = \"2.28\""), Catch::Contains("did you mean \"software\""));
  CHECK_THAT(error_of("[trials]\ndeadline_s = -1"),
             Catch::StartsWith("job.toml:6: trials.deadline_s: expected a positive"));
  CHECK_THAT(error_of("[trials]\nminimum_gain = 1"),
             Catch::StartsWith("job.toml:6: trials.minimum_gain: expected a number from 0 to less than 1"));
  CHECK_THAT(error_of("[trials]\noverhead = -0.1"),
             Catch::StartsWith("job.toml:6: trials.overhead: expected a number from 0 to 1"));
  CHECK_THAT(error_of("[trials]\nlook_every_s = 0.5"),
             Catch::StartsWith("job.toml:6: trials.look_every_s: expected 0 or at least 1 s"));
  CHECK_THAT(error_of("[trials]\nlasting_s = 4000"),
             Catch::StartsWith("job.toml:6: trials.lasting_s: expected 0 or 1 s to 3600 s"));
  CHECK_THAT(error_of("[crashes]\nlimit = 100"),
             Catch::StartsWith("job.toml:6: crashes.limit: expected an integer between 0 and 99"));
  CHECK_THAT(error_of("[trials]\ndeadline_s = nan"),
             Catch::StartsWith("job.toml:6: trials.deadline_s: expected a positive"));
}

TEST_CASE("what only the whole file can tell is told") {
  CHECK_THAT(error_of(""), Catch::StartsWith("job.toml: commands.train: expected the command that starts a rank"));
  CHECK_THAT(error_of("mode = \"auto\"\n[commands]\ntrain = [\"t\"]"),
             Catch::StartsWith("job.toml: commands.describe: expected"));
  CHECK(error_of("[commands]\ntrain = [\"t\"]").empty());  // it is only observed
  CHECK(error_of("model = \"m.json\"\n[commands]\ntrain = [\"t\"]").empty());
  CHECK_THAT(parse_job_toml("name = \"j\"", "job.toml", "/d").error().message,
             Catch::StartsWith("job.toml: schema: expected \"trimtab.job/1\", found nothing"));
}

TEST_CASE("switches that the reference trainer's ranks would refuse are refused in its job file") {
  const std::string text =
      "[commands]\ndescribe = [\"d\"]\ntrain = [\"python3\", \"/opt/trainer/train.py\"]\n"
      "[knobs]\nmemory_switches = true\n";
  const std::string refused = error_of(text);
  CHECK_THAT(refused, Catch::Contains("knobs.memory_switches") && Catch::Contains("target = \"trainer\""));
  CHECK(error_of("target = \"trainer\"\n" + text).empty());
  std::string own = text;
  CHECK(error_of(own.replace(own.find("/opt/trainer/train.py"), 21, "/opt/mytrainer/train.py")).empty());
}

TEST_CASE("what a target may honour is on unless the file says no, wherever the target stands") {
  const auto knobs_of = [](const std::string& text) {
    const std::string begin = "schema = \"trimtab.job/1\"\nname = \"j\"\n";
    const std::string end = "\n[commands]\ntrain = [\"t\"]\ndescribe = [\"d\"]\n";
    return parse_job_toml(begin + text + end, "job.toml", "/d").value().job.knobs;
  };
  CHECK(knobs_of("") == Knobs{});
  CHECK(knobs_of("target = \"trainer\"") == Knobs{});
  Knobs open;
  open.tensor_parallel = open.sharded = true;
  CHECK(knobs_of("target = \"megatron\"") == open);
  CHECK(knobs_of("knobs.tensor_parallel = true\ntarget = \"megatron\"") == open);
  open.tensor_parallel = false;
  CHECK(knobs_of("knobs.tensor_parallel = false\ntarget = \"megatron\"") == open);
  CHECK(knobs_of("target = \"megatron\"\n[knobs]\ntensor_parallel = false") == open);
}

TEST_CASE("another version of job.toml is refused before its keys are read") {
  CHECK(parse_job_toml("mode = 7\nschema = \"trimtab.job/2\"", "job.toml", "/d").error().message ==
        "job.toml:2: schema: expected \"trimtab.job/1\", the version that this release reads, found 'trimtab.job/2'");
}

TEST_CASE("malformed TOML is refused with its line") {
  CHECK_THAT(error_of("mode = "), Catch::StartsWith("job.toml:5: "));
  CHECK_THAT(error_of("mode = \"a\"\nmode = \"b\""), Catch::StartsWith("job.toml:6: "));
  CHECK_THAT(error_of("x = " + std::string(100000, '[')), Catch::StartsWith("job.toml:5: "));
}

TEST_CASE("loading a job reads the plan and the model that it names") {
  const Directory directory;
  directory.write("initial.json", sample(DocumentKind::kPlan));
  directory.write("model.json", sample(DocumentKind::kModel));
  const std::string path = directory.write("job.toml",
                                           "schema = \"trimtab.job/1\"\nname = \"j\"\ninitial_plan = \"initial.json\"\n"
                                           "model = \"model.json\"\n[commands]\ntrain = [\"t\"]\n");
  const Job job = load_job(path).value();
  CHECK(job.initial_plan_json == sample(DocumentKind::kPlan));
  CHECK(job.model_json == sample(DocumentKind::kModel));
  directory.write("initial.json", "{}");
  CHECK_THAT(load_job(path).error().message, Catch::Contains("initial.json: schema: expected \"trimtab.plan/1\""));
  std::filesystem::remove(std::filesystem::path(path).parent_path() / "model.json");
  directory.write("initial.json", sample(DocumentKind::kPlan));
  CHECK_THAT(load_job(path).error().message,
             Catch::Contains("cannot read the model") && Catch::Contains("No such file"));
}

TEST_CASE("a job file that is missing or a directory is refused by name") {
  CHECK_THAT(load_job("/nonexistent/job.toml").error().message,
             Catch::Contains("/nonexistent/job.toml") && Catch::Contains("No such file"));
  CHECK_THAT(load_job("/tmp").error().message, Catch::Contains("/tmp is a directory"));
}

TEST_CASE("a job is elastic where it says so") {
  const std::string head =
      "schema = \"trimtab.job/1\"\nname = \"a\"\n"
      "commands = {describe = [\"d\"], benchmark = [\"b\"], train = [\"t\"]}\n";
  CHECK_FALSE(parse_job_toml(head, "job.toml", "/").value().job.elastic);
  const Job job = parse_job_toml(head + "elastic = true\n", "job.toml", "/").value().job;
  CHECK(job.elastic);
  CHECK(parse_job(to_json(job), "").value().elastic);
  CHECK_FALSE(parse_job_toml(head + "elastic = 1\n", "job.toml", "/").ok());
}
