// Knobs of a job's own: how they are written, and what they do to its command.

#include <catch2/catch.hpp>

#include "sample_documents.hpp"
#include "schema/job.hpp"
#include "schema/own_knobs.hpp"
#include "schema/plan.hpp"

using namespace trimtab;

namespace {

Job job_of(std::vector<std::string> train, const std::vector<std::string>& knobs) {
  Job job;
  job.name = "own";
  job.delivery = Delivery::kRestart;
  job.train = std::move(train);
  for (const std::string& text : knobs) {
    auto knob = parse_own_knob(text);
    REQUIRE(knob.ok());
    job.own_knobs.push_back(std::move(*knob));
  }
  return job;
}

std::string refusal(const std::string& text) {
  const auto knob = parse_own_knob(text);
  return knob.ok() ? "" : knob.error().message;
}

constexpr const char* kJob = R"(schema = "trimtab.job/1"
name = "own"
mode = "auto"
delivery = "restart"
checkpoint = "saved"
steps = 100
[commands]
train = ["python3", "train.py", "--workers=2", "--out", "{checkpoint}"]
[knobs.own_class]
OMP_NUM_THREADS = "exact"
[knobs.own]
OMP_NUM_THREADS = [1, 2, 4]
"arg:--workers" = ["2", "4"]
batch = ["arg:--batch=8 arg:--accumulate=2", "arg:--batch=16 arg:--accumulate=1"]
[knobs.own_when]
OMP_NUM_THREADS = ["arg:--workers=2"]
)";

}  // namespace

TEST_CASE("a knob of one's own is a variable, an argument, a flag, or several that belong together", "[own-knobs]") {
  const auto variable = parse_own_knob("OMP_NUM_THREADS=1,2,4@exact");
  REQUIRE(variable.ok());
  CHECK(variable->name == "env:OMP_NUM_THREADS");
  CHECK(variable->change_class == "exact");
  CHECK(variable->values.at(1) == OwnSettings{{"env:OMP_NUM_THREADS", "2"}});
  const auto argument = parse_own_knob("arg:--num-workers=2,4");
  REQUIRE(argument.ok());
  CHECK(argument->change_class == "rounding");
  CHECK(argument->values.at(0) == OwnSettings{{"arg:--num-workers", "2"}});
  const auto both = parse_own_knob("batch=arg:--b=8 arg:--a=2,arg:--b=16 arg:--a=1");
  REQUIRE(both.ok());
  CHECK(both->values.at(1) == OwnSettings{{"arg:--a", "1"}, {"arg:--b", "16"}});
  CHECK_THAT(refusal("OMP_NUM_THREADS"), Catch::Contains("NAME=VALUE,VALUE"));
  CHECK_THAT(refusal("flag:--compile=yes"), Catch::Contains("on or off"));
  CHECK_THAT(refusal("flag:workers=on"), Catch::Contains("--num-workers"));
  CHECK_THAT(refusal("TRIMTAB_RANK=1,2"), Catch::Contains("no knob"));
  CHECK_THAT(refusal("X=1,1"), Catch::Contains("twice"));
  CHECK_THAT(refusal("X=1,,2"), Catch::Contains("is empty"));
  CHECK_THAT(refusal("X=1,"), Catch::Contains("is empty"));
  CHECK_THAT(refusal("X=\xff"), Catch::Contains("UTF-8"));
  CHECK(refusal("\xff") ==
        "a knob is NAME=VALUE,VALUE, such as OMP_NUM_THREADS=1,2,4 or arg:--num-workers=2,4; found '\xef\xbf\xbd'");
  CHECK_THAT(refusal("arg:--w=--fast"), Catch::Contains("would be an option of its own"));
  CHECK(refusal("arg:--w=-1,-2.5,-").empty());
  CHECK_THAT(refusal("arg:--=1"), Catch::Contains("an argument's name"));
  CHECK_THAT(refusal("1X=1,2"), Catch::Contains("no name of an environment variable"));
}

TEST_CASE("settings take the place of what is written, wherever that is", "[own-knobs]") {
  const Job job =
      job_of({"env", "A=1", "python3", "t.py", "--w=2", "--b", "8", "--fast"},
             {"A=1,2", "B=5", "arg:--w=2,4", "arg:--b=8,9", "arg:--new=7", "flag:--fast=on,off", "flag:--slow=on,off"});
  CHECK(written_settings(job) ==
        OwnSettings{{"env:A", "1"}, {"arg:--w", "2"}, {"arg:--b", "8"}, {"flag:--fast", "on"}, {"flag:--slow", "off"}});
  const Job other = with_own_settings(job, {{"env:A", "2"},
                                            {"env:B", "5"},
                                            {"arg:--w", "4"},
                                            {"arg:--b", "9"},
                                            {"arg:--new", "7"},
                                            {"flag:--fast", "off"},
                                            {"flag:--slow", "on"}});
  CHECK(other.train ==
        std::vector<std::string>{"env", "A=2", "python3", "t.py", "--w=4", "--b", "9", "--new", "7", "--slow"});
  CHECK(other.environment.at("A") == "2");
  CHECK(other.environment.at("B") == "5");
  CHECK(with_own_settings(job, {}).train == job.train);
  CHECK(own_words({{"env:A", "2"}, {"arg:--w", "4"}, {"flag:--fast", "off"}}) == "--w 4, A=2, without --fast");
}

TEST_CASE("an argument is added as the command's others are written", "[own-knobs]") {
  const auto with_new = [](std::vector<std::string> train) {
    return with_own_settings(job_of(std::move(train), {"arg:--new=7"}), {{"arg:--new", "7"}}).train;
  };
  using Words = std::vector<std::string>;
  CHECK(with_new({"t", "--a=1"}) == Words{"t", "--a=1", "--new=7"});
  CHECK(with_new({"t", "--a=1", "--b", "2"}) == Words{"t", "--a=1", "--b", "2", "--new", "7"});
  CHECK(with_new({"t"}) == Words{"t", "--new", "7"});
}

TEST_CASE("an override without dashes is a knob where the command has it", "[own-knobs]") {
  const Job job = job_of({"t", "batch", "trainer.batch=8"}, {"arg:trainer.batch=8,16"});
  CHECK(check_own_knobs(job).ok());
  CHECK(written_settings(job) == OwnSettings{{"arg:trainer.batch", "8"}});
  CHECK(with_own_settings(job, {{"arg:trainer.batch", "16"}}).train ==
        std::vector<std::string>{"t", "batch", "trainer.batch=16"});
  const Job without = job_of({"t", "batch", "--workers", "2"}, {"arg:batch=8,16"});
  CHECK_THAT(check_own_knobs(without).error().message, Catch::Contains("arg:--batch"));
}

TEST_CASE("job.toml names own knobs, in any order, and a job's JSON keeps them", "[own-knobs]") {
  const auto parsed = parse_job_toml(kJob, "job.toml", "/tmp");
  REQUIRE(parsed.ok());
  const Job& job = parsed->job;
  REQUIRE(job.own_knobs.size() == 3);
  const auto threads = std::ranges::find(job.own_knobs, "env:OMP_NUM_THREADS", &OwnKnob::name);
  REQUIRE(threads != job.own_knobs.end());
  CHECK(threads->change_class == "exact");
  CHECK(threads->values.size() == 3);
  CHECK(threads->when.at("arg:--workers") == std::vector<std::string>{"2"});
  CHECK(check_own_knobs(job).ok());
  const auto again = parse_job(to_json(job), "job");
  REQUIRE(again.ok());
  CHECK(again->own_knobs == job.own_knobs);
  const auto wrong = parse_job_toml(std::string(kJob) + "[knobs.own_class2]\nx = 1\n", "job.toml", "/tmp");
  CHECK_FALSE(wrong.ok());
}

TEST_CASE("own knobs that cannot be tried are refused, with what to do", "[own-knobs]") {
  Job job = job_of({"t"}, {"A=1,2"});
  job.delivery = Delivery::kLive;
  job.mode = JobMode::kAuto;
  CHECK_THAT(check_own_knobs(job).error().message, Catch::Contains("delivery = \"restart\""));
  job = job_of({"t"}, {"A=1,2@statistical"});
  CHECK_THAT(check_own_knobs(job).error().message, Catch::Contains("class = \"statistical\""));
  job = job_of({"t"}, {"A=1,2", "both=env:A=1 env:B=1"});
  CHECK_THAT(check_own_knobs(job).error().message, Catch::Contains("two of its own knobs"));
  job = job_of({"t"}, {"arg:--w=1,2", "flag:--w=on,off"});
  CHECK_THAT(check_own_knobs(job).error().message, Catch::Contains("two of its own knobs"));
  job = job_of({"t", "--compile=true"}, {"flag:--compile=on,off"});
  CHECK_THAT(check_own_knobs(job).error().message, Catch::Contains("Name it arg:--compile"));
  for (const std::string knob : {"arg:--out=a,b", "x=arg:--out=a arg:--w=1,arg:--out=b arg:--w=2", "arg:--steps=1,2"}) {
    job = job_of({"t", "--out", "{checkpoint}", "--steps={steps}"}, {knob});
    CHECK_THAT(check_own_knobs(job).error().message, Catch::Contains("each launch has its own"));
  }
  job = job_of({"t"}, {"A=1,2"});
  REQUIRE(add_condition(job.own_knobs[0], {"env:B=1"}).ok());
  CHECK_THAT(check_own_knobs(job).error().message, Catch::Contains("depends on env:B"));
}

TEST_CASE("a condition that no launch can meet is refused", "[own-knobs]") {
  const auto answer = [](const std::vector<std::string>& condition) {
    Job job = job_of({"t", "--w", "1"}, {"A=1,2", "arg:--w=2,4", "pair=arg:--a=1 arg:--b=1,arg:--a=2 arg:--b=2"});
    REQUIRE(add_condition(job.own_knobs[0], condition).ok());
    const Status checked = check_own_knobs(job);
    return checked.ok() ? "" : checked.error().message;
  };
  CHECK(answer({"arg:--w=4"}).empty());
  CHECK(answer({"arg:--w=1"}).empty());  // as it is written
  CHECK(answer({"arg:--w=2", "arg:--w=4", "arg:--a=2", "arg:--b=2"}).empty());
  CHECK_THAT(answer({"arg:--w=4", "arg:--w=3"}),
             Catch::Contains("arg:--w=3, a value that arg:--w never has") && Catch::Contains("Name one of 1, 2, 4"));
  CHECK_THAT(answer({"arg:--a=1", "arg:--b=2"}), Catch::Contains("no value of the knob pair has together"));
}

TEST_CASE("a plan carries own settings, and another one is another plan", "[own-knobs]") {
  const auto plan = parse_plan(sample(DocumentKind::kPlan), "plan");
  REQUIRE(plan.ok());
  Plan other = *plan;
  other.own = {{"env:A", "2"}};
  CHECK(semantic_hash(other) != semantic_hash(*plan));
  const auto again = parse_plan(to_json(other), "plan");
  REQUIRE(again.ok());
  CHECK(again->own == other.own);
  CHECK(layout_of(other).own == other.own);
  std::string text = to_json(other);
  text.replace(text.find("env:A"), 5, "wrong");
  CHECK_THAT(parse_plan(text, "plan").error().message, Catch::Contains("env:NAME, arg:--name or flag:--name"));
}
