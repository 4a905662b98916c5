#include "init/job_draft.hpp"

#include <catch2/catch.hpp>

#include "schema/job.hpp"
#include "schema/launch_script.hpp"

using namespace trimtab;
using Catch::Contains;
using cli::CommandFacts;
using cli::JobDraft;

namespace {

using Words = std::vector<std::string>;

const Words kRank{"env", "RANK={rank}", "LOCAL_RANK={local_rank}", "WORLD_SIZE={world_size}",
                  "MASTER_ADDR={master_addr}"};

JobDraft draft(const std::string& line, const std::string& script, const std::string& layers = "") {
  CommandFacts facts;
  facts.directory = ".";
  facts.script_text = script;
  facts.layers = layers;
  return cli::draft_job(shell_words(line, "line").value(), facts);
}

Job job_of(const JobDraft& made) {
  INFO(made.toml);
  const auto parsed = parse_job_toml(made.toml, "job.toml", "/w");
  REQUIRE((parsed.ok() ? "" : parsed.error().message) == "");
  return parsed->job;
}

Words rank_words(Words rest) {
  rest.insert(rest.begin(), kRank.begin(), kRank.end());
  return rest;
}

}  // namespace

TEST_CASE("a script that takes plans gets a job that recommends one") {
  const JobDraft made =
      draft("OMP_NUM_THREADS=1 torchrun --nproc_per_node 2 ex/train.py --checkpoint ck --steps 2000 --lr=0.1",
            "run = trimtab.parallel.load(batch_size=16)", "model:layers");
  const Job job = job_of(made);
  CHECK(job.target == "ddp");
  CHECK(job.mode == JobMode::kRecommend);
  CHECK(job.delivery == Delivery::kRestart);
  CHECK(job.name == "train");
  CHECK(job.world_size == 2);
  CHECK(job.steps == 2000);
  CHECK(job.checkpoint == "/w/ck");
  CHECK(job.environment.at("OMP_NUM_THREADS") == "1");
  CHECK(job.train ==
        rank_words({"python3", "-u", "ex/train.py", "--checkpoint", "{checkpoint}", "--steps", "{steps}", "--lr=0.1"}));
  CHECK(job.describe[3] == "model:layers");
  CHECK(job.benchmark[3] == "model:layers");
  CHECK_THAT(made.toml, Contains("CHECK: --global-batch"));
}

TEST_CASE("each target is recognised by the command or the script, and what takes no plan yet is observed as it is") {
  struct Case {
    std::string line;
    std::string script;
    std::string target;
  };
  for (const Case& one : std::vector<Case>{
           {"torchrun --nproc_per_node 2 t.py", "from torch.nn.parallel import DistributedDataParallel as DDP", "ddp"},
           {"torchrun --nproc_per_node 2 t.py", "from torch.distributed.fsdp import fully_shard", "fsdp"},
           {"deepspeed --num_gpus 2 t.py --deepspeed_config ds.json", "", "deepspeed"},
           {"accelerate launch --num_processes 2 t.py", "engine = deepspeed.initialize(", "deepspeed"},
           {"torchrun --nproc_per_node 2 pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 4", "",
            "megatron"},
           {"srun -n 2 python3 t.py", "print('hello')", ""}}) {
    const JobDraft made = draft(one.line, one.script);
    INFO(one.line);
    CHECK(made.target == one.target);
    const Job job = job_of(made);
    CHECK(job.mode == JobMode::kObserve);
    CHECK(job.target.empty());
    CHECK(job.world_size == 2);
    for (const std::string& word : job.train) CHECK(word.find("{target") == std::string::npos);
    CHECK_FALSE(made.remarks.empty());
  }
}

TEST_CASE("Megatron-LM's arguments that plans set are taken out where plans set them") {
  const JobDraft made = draft(
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --micro-batch-size 2 --global-batch-size=64 "
      "--use-distributed-optimizer --save ck --load ck --train-iters 100",
      "");
  CHECK_THAT(made.toml, Contains("# train = [") && Contains("\"{target_arguments}\", \"--num-layers\", \"4\", "
                                                            "\"--save\", \"{checkpoint}\", \"--load\", "
                                                            "\"{checkpoint}\", \"--train-iters\", \"100\"]"));
  CHECK_THAT(made.toml, Contains("\"trimtab\", \"model\", \"extract\""));
  CHECK(job_of(made).steps == 100);
  CHECK_FALSE(made.plan);
  CHECK_THAT(made.remarks.front(), Contains("no plan is written: --hidden-size"));
}

TEST_CASE("the plan that Megatron-LM's arguments say is written beside the job file") {
  const JobDraft made = draft(
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 64 --max-position-embeddings 64 --vocab-size 100 --micro-batch-size 2 --global-batch-size 64 "
      "--tensor-model-parallel-size 2 --recompute-granularity selective --recompute-modules mlp",
      "");
  REQUIRE(made.plan);
  CHECK(made.plan->stages.at(0).segments.at(0).dp == 4);
  CHECK_THAT(made.toml, Contains("initial_plan = \"plan.json\""));
  CHECK_THAT(made.toml, Contains("train = [") && !Contains("--recompute-modules\", \"mlp\", \"{"));
}

TEST_CASE("ranks get the interpreter of their launcher, where the command names none") {
  CommandFacts facts;
  facts.directory = ".";
  facts.interpreter = "/opt/venv/bin/python3";
  const auto train = [&](const std::string& line) {
    return job_of(cli::draft_job(shell_words(line, "line").value(), facts)).train;
  };
  CHECK(train("torchrun --nproc_per_node 2 t.py") == rank_words({"/opt/venv/bin/python3", "-u", "t.py"}));
  CHECK(train("srun -n 2 python t.py") == rank_words({"python", "-u", "t.py"}));
}

TEST_CASE("a shell script and odd words stand in the file as they were given") {
  const JobDraft made = draft("bash 'my \"odd\" train.sh' 4", "torchrun ...");
  const Job job = job_of(made);
  CHECK(job.train == Words{"bash", "my \"odd\" train.sh", "4"});
  CHECK(job.name == "my--odd--train");
  CHECK_THAT(made.remarks.front(), Contains("once for each rank"));
}
