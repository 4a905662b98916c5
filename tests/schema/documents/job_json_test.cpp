#include <string>

#include <catch2/catch.hpp>

#include "sample_documents.hpp"
#include "schema/job.hpp"

using namespace trimtab;
using namespace trimtab::test;

TEST_CASE("every field of a job is read") {
  const Job job = parse_job(sample(DocumentKind::kJob), "").value();
  CHECK(job.name == "gpt-cpu");
  CHECK(job.mode == JobMode::kAuto);
  CHECK(job.delivery == Delivery::kRestart);
  CHECK(job.world_size == 2);
  CHECK(job.memory_limit == 734003200);
  CHECK(job.steps == 400);
  CHECK(job.target == "ddp");
  CHECK(job.strategy == "target");
  CHECK(job.checkpoint == "/c");
  CHECK(job.walltime == Nanoseconds(9));
  CHECK(job.hang == Nanoseconds(8));
  CHECK(job.change_class == "exact");
  CHECK(job.initial_plan_json == "{\"schema\": \"trimtab.plan/1\"}");
  CHECK(job.train == std::vector<std::string>{"t", "--plan", "{plan}"});
  CHECK(job.environment.at("OPENBLAS_NUM_THREADS") == "1");
  CHECK(job.software == std::map<std::string, std::string>{{"nccl", "2.28.9"}});
  CHECK_FALSE(job.knobs.uneven_stages);
  CHECK(job.knobs.pipeline);
  CHECK(job.knobs.sub_batches);
  CHECK(job.knobs.memory_switches);
  CHECK_FALSE(job.knobs.tensor_parallel);
  CHECK(job.trials.warmup_steps == 0);
  CHECK(job.trials.deadline == Nanoseconds(1));
  CHECK(job.trials.stop_after);
  CHECK(job.trials.loss_check_steps == 7);
  CHECK(job.trials.minimum_gain == 0.25);
  CHECK(job.crashes.limit == 0);
  CHECK(job.crashes.within == Nanoseconds(7));
  CHECK(job.crashes.within_steps == 50);
}

TEST_CASE("a job comes back from its JSON as it was") {
  const std::string text = to_json(parse_job(sample(DocumentKind::kJob), "").value());
  CHECK(to_json(parse_job(text, "").value()) == text);
}

// Handing in the same job.toml again must not make another job of it.
TEST_CASE("a job for a target that an earlier release wrote has what it searched") {
  Job job;
  job.name = "gpt";
  job.target = "megatron";
  std::string text = to_json(job);
  CHECK_FALSE(parse_job(text, "").value().knobs.tensor_parallel);
  const std::string holds = "\"knobs_hold\":true,";
  const std::size_t at = text.find(holds);
  REQUIRE(at != std::string::npos);
  text.erase(at, holds.size());
  CHECK(parse_job(text, "").value().knobs.tensor_parallel);
  CHECK(parse_job(text, "").value().knobs.sharded);
  CHECK_FALSE(parse_job(text, "").value().knobs.memory_switches);
  text.replace(text.find("megatron"), 8, "trainer");
  CHECK_FALSE(parse_job(text, "").value().knobs.tensor_parallel);
}

TEST_CASE("keys that differ between two jobs are named, and none between equal ones") {
  Job first;
  first.name = "gpt";
  first.train = {"train", "--steps", "3"};
  first.environment = {{"A", "1"}};
  Job second = *parse_job(to_json(first), "copy");
  CHECK(differing_keys(first, second).empty());
  second.steps = 7;
  second.train[2] = "4";
  second.train.emplace_back("--more");
  second.environment["B"] = "2";
  second.trials.minimum_gain = 0.25;
  second.model_json = "{}";
  CHECK(differing_keys(first, second) ==
        std::vector<std::string>{"commands.train", "environment.B", "model_json", "steps", "trials.minimum_gain"});
}

TEST_CASE("modes have the names of the documents") {
  CHECK(to_string(JobMode::kObserve) == "observe");
  CHECK(to_string(JobMode::kApprove) == "approve");
}

TEST_CASE("a job's name is safe as a file name") {
  const auto accepted = [](const std::string& name) {
    return parse_job(R"({"schema":"trimtab.job/1","name":")" + name + "\"}", "").ok();
  };
  CHECK(accepted("gpt-cpu_1.5B"));
  CHECK(accepted(std::string(64, 'a')));
  for (const std::string name : {"", ".", "..", "a/b", "a b", "../../etc", "caf\xc3\xa9"}) {
    INFO(name);
    CHECK_FALSE(accepted(name));
  }
  CHECK_FALSE(accepted(std::string(65, 'a')));
}

TEST_CASE("an unsuitable field of a job is named by its path") {
  const auto error_of = [](const std::string& member) {
    return parse_job(R"({"schema":"trimtab.job/1","name":"j",)" + member + "}", "job").error().message;
  };
  CHECK_THAT(error_of(R"("mode":"turbo")"), Catch::StartsWith("job: mode: expected \"observe\", \"recommend\""));
  CHECK_THAT(error_of(R"("class":"learning")"), Catch::StartsWith("job: class: expected \"exact\""));
  CHECK_THAT(error_of(R"("world_size":0)"), Catch::StartsWith("job: world_size: expected a number of ranks"));
  CHECK_THAT(error_of(R"("commands":{"train":["a",1]})"), Catch::StartsWith("job: commands.train[1]: expected a text"));
  CHECK_THAT(error_of(R"("environment":{"A":1})"), Catch::StartsWith("job: environment.A: expected a text, found 1"));
  CHECK_THAT(error_of(R"("trials":{"minimum_gain":1})"),
             Catch::StartsWith("job: trials.minimum_gain: expected a number from 0 to less than 1"));
  CHECK_THAT(error_of(R"("trials":{"overhead":1.5})"),
             Catch::StartsWith("job: trials.overhead: expected a number from 0 to 1"));
  CHECK_THAT(error_of(R"("trials":{"look_every_ns":5})"),
             Catch::StartsWith("job: trials.look_every_ns: expected 0 or at least 1 s"));
  CHECK_THAT(error_of(R"("trials":{"lasting_ns":5})"),
             Catch::StartsWith("job: trials.lasting_ns: expected 0 or 1 s to 3600 s"));
  CHECK_THAT(error_of(R"("crashes":{"within_ns":0})"), Catch::StartsWith("job: crashes.within_ns: expected a time"));
  CHECK_THAT(error_of(R"("trials":{"deadline_ns":0})"), Catch::StartsWith("job: trials.deadline_ns: expected a time"));
}
