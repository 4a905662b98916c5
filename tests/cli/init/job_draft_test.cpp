#include "init/job_draft.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "schema/hf_model.hpp"
#include "schema/job.hpp"
#include "schema/launch_script.hpp"
#include "schema/own_knobs.hpp"

using namespace trimtab;
using Catch::Contains;
using cli::CommandFacts;
using cli::JobDraft;

namespace {

using Words = std::vector<std::string>;

const Words kRank{"env", "RANK={rank}", "LOCAL_RANK={local_rank}", "WORLD_SIZE={world_size}",
                  "MASTER_ADDR={master_addr}"};

JobDraft draft(const std::string& line, const std::string& script, const std::string& layers = "",
               const cli::DraftWishes& wishes = {}) {
  CommandFacts facts;
  facts.directory = ".";
  facts.script_text = script;
  facts.layers = layers;
  facts.hook = "/client/watch_hook";
  facts.python_path = {"/client"};
  facts.threads = 8;
  return cli::draft_job(shell_words(line, "line").value(), facts, wishes);
}

// Handed to `tune`.
JobDraft tuned(const std::string& line, const std::vector<std::string>& knobs = {}) {
  cli::DraftWishes wishes;
  wishes.tune = true;
  for (const std::string& text : knobs) wishes.own_knobs.push_back(parse_own_knob(text).value());
  return draft(line, "from torch.nn.parallel import DistributedDataParallel", "", wishes);
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
  CHECK(job.delivery == Delivery::kLive);
  CHECK(job.name == "train");
  CHECK(job.world_size == 2);
  CHECK(job.steps == 2000);
  CHECK(job.checkpoint.empty());
  CHECK_FALSE(job.knobs.sharded);
  CHECK(job.environment.at("OMP_NUM_THREADS") == "1");
  CHECK(job.train == rank_words({"python3", "-u", "ex/train.py", "--checkpoint", "ck", "--steps", "2000", "--lr=0.1"}));
  CHECK(job.describe[3] == "model:layers");
  CHECK(job.describe[5] == "32");
  CHECK(job.benchmark[3] == "model:layers");
}

namespace {

constexpr const char* kLayers =
    R"({"schema":"trimtab.model/1","name":"t","global_batch":32,"dtype":"float32","operators":[
  {"name":"block0","kind":"block","layer":0,"cost_key":"block-h8","cut_before":true,"parameter_bytes":8,"activation_bytes":8,
   "output_bytes":8,"forward_flops":8},
  {"name":"block1","kind":"block","layer":1,"cost_key":"block-h8","cut_before":true,"parameter_bytes":8,"activation_bytes":8,
   "output_bytes":8,"forward_flops":8}]})";

JobDraft of_parallel(const std::string& load, const std::string& options = "--steps 50",
                     const std::vector<std::string>& knobs = {}) {
  cli::DraftWishes wishes;
  wishes.tune = true;
  for (const std::string& text : knobs) wishes.own_knobs.push_back(parse_own_knob(text).value());
  CommandFacts facts;
  facts.directory = ".";
  facts.script_text = "import trimtab.parallel  # parallel.load(batch_size=9)\nrun = trimtab.parallel." + load + "\n";
  facts.layers = "model:layers";
  facts.python_path = {"/client"};
  const std::vector<std::string> command = shell_words("torchrun --nproc_per_node 4 t.py " + options, "line").value();
  const auto asked = cli::wanted_layers_model(command, facts, wishes);
  if (asked) {
    CHECK(asked->batch == "32");
    CHECK(asked->environment.back() == "PYTHONPATH=/client");
    facts.layers_model = kLayers;
  }
  return cli::draft_job(command, facts, wishes);
}

}  // namespace

TEST_CASE(
    "a script of trimtab.parallel is tuned as it trains, from the plan that it runs, with nothing of it changed") {
  const JobDraft made = of_parallel("load(batch_size=4,\n  gradient_accumulation_steps = 2)");
  CHECK(made.live);
  CHECK_FALSE(made.saves);
  CHECK(made.unread.empty());
  const Job job = job_of(made);
  CHECK(job.mode == JobMode::kAuto);
  CHECK(job.delivery == Delivery::kLive);
  CHECK(job.checkpoint.empty());
  CHECK(job.train == rank_words({"python3", "-u", "t.py", "--steps", "50"}));
  CHECK_FALSE(job.environment.contains("TRIMTAB_WATCH"));
  CHECK_FALSE(job.knobs.sharded);
  REQUIRE(made.plan);
  CHECK(made.plan->global_batch == 32);
  CHECK(made.plan->microbatch == 16);
  CHECK(made.plan->stages.at(0).segments.at(0).dp == 4);
  REQUIRE(made.model);
  CHECK_THAT(made.toml, Contains("initial_plan = \"plan.json\""));

  const JobDraft sharded =
      of_parallel("load(kind=\"fsdp2\", batch_size=given.batch_size)", "--steps 50 --batch_size=8");
  CHECK(sharded.target == "fsdp2");
  CHECK(sharded.plan->stages.at(0).segments.at(0).sharded == ShardedLevel::kParameters);
  CHECK(job_of(sharded).knobs.sharded);
}

TEST_CASE(
    "a step's samples that nobody says are no guess of a job that is tuned, and own knobs are tried by restarts") {
  const JobDraft unclear = of_parallel("load(batch_size=whole // ranks)");
  REQUIRE(unclear.unread.size() == 1);
  CHECK_THAT(unclear.unread.front(), Contains("how many samples a step has"));
  CHECK(of_parallel("load(batch_size=whole // ranks)", "--steps 50 --global-batch 32").unread.empty());
  const JobDraft own = of_parallel("load(batch_size=8)", "--steps 50 --checkpoint ck", {"A=1,2"});
  CHECK_FALSE(own.live);
  CHECK(job_of(own).delivery == Delivery::kRestart);
}

TEST_CASE("a script of trimtab.pipelining's is given plans, and hooks tell its steps") {
  const JobDraft made =
      draft("torchrun --nproc_per_node 2 train.py --checkpoint ck --steps 2000",
            "run = trimtab.pipelining.load(layers=6, n_microbatches=8, batch_size=32)", "model:layers");
  const Job job = job_of(made);
  CHECK(job.target == "pipelining");
  CHECK(job.mode == JobMode::kRecommend);
  CHECK(job.environment.at("TRIMTAB_WATCH") == "1");
  CHECK(job.environment.at("PYTHONPATH") == "/client/watch_hook:/client");
  CHECK(job.train == rank_words({"python3", "-u", "train.py", "--checkpoint", "{checkpoint}", "--steps", "{steps}"}));
}

TEST_CASE("each target is recognised by the command or the script, and what takes no plan yet is observed as it is") {
  struct Case {
    std::string line;
    std::string script;
    std::string target;
  };
  for (const Case& one : std::vector<Case>{
           {"torchrun --nproc_per_node 2 t.py", "from torch.nn.parallel import DistributedDataParallel as DDP", "ddp"},
           {"torchrun --nproc_per_node 2 t.py", "from torch.distributed.fsdp import fully_shard", "fsdp2"},
           {"torchrun --nproc_per_node 2 t.py", "model = FullyShardedDataParallel(model)", "fsdp"},
           {"torchrun --nproc_per_node 2 t.py",
            "from torch.distributed.pipelining import PipelineStage\nfrom torch.distributed.fsdp import fully_shard",
            "pipelining"},
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
                                                            "\"{checkpoint}\", \"--train-iters\", \"100\", "
                                                            "\"--exit-interval\", \"{steps}\", "
                                                            "\"--exit-signal-handler\"]"));
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
  const Job job = job_of(made);
  CHECK(job.mode == JobMode::kRecommend);
  CHECK(job.target == "megatron");
  CHECK(job.benchmark.at(2) == "trimtab.megatron_benchmark");
  CHECK(std::ranges::count(job.train, "{target_arguments}") == 1);
  CHECK(std::ranges::count(job.train, "--micro-batch-size") == 0);
}

TEST_CASE("a Megatron-LM job without a global batch has a microbatch of each replica") {
  const JobDraft made = draft(
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 64 --max-position-embeddings 64 --vocab-size 100 --micro-batch-size 2 "
      "--tensor-model-parallel-size 2",
      "");
  REQUIRE(made.plan);
  CHECK(made.plan->global_batch == 8);
  REQUIRE(made.model);
  CHECK(made.model->global_batch == 8);
}

TEST_CASE("a Trainer's command is given plans in its own arguments") {
  const std::string line =
      "torchrun --nproc_per_node 2 t.py --model_name_or_path m --block_size 64 --per_device_train_batch_size 2 "
      "--gradient_accumulation_steps=4 --gradient_checkpointing --output_dir ck --max_steps 50";
  CommandFacts facts;
  facts.directory = ".";
  facts.script_text = "HfArgumentParser(TrainingArguments)";
  facts.hook = "/client/watch_hook";
  const Words words = shell_words(line, "line").value();
  facts.plan_file = PlanFile{"", "the command", "transformers", {words.begin() + 4, words.end()}};
  facts.config_path = "m/config.json";
  facts.config_text =
      R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 64, "vocab_size": 100})";
  cli::DraftWishes wishes;
  wishes.tune = true;
  const JobDraft made = cli::draft_job(words, facts, wishes);
  CHECK(made.unread.empty());
  REQUIRE(made.plan);
  CHECK(made.plan->global_batch == 16);
  CHECK(made.plan->stages.at(0).segments.at(0).recompute.size() == 1);
  REQUIRE(made.model);
  CHECK(made.model->global_batch == 16);
  const Job job = job_of(made);
  CHECK(job.target == "transformers");
  CHECK(job.mode == JobMode::kAuto);
  CHECK(job.environment.at("TRIMTAB_WATCH") == "1");
  CHECK(job.train == rank_words({"python3", "-u", "t.py", "--model_name_or_path", "m", "--block_size", "64",
                                 "--output_dir", "{checkpoint}", "--max_steps", "{steps}", "{target_arguments}"}));

  facts.script_text = "parser.add_argument('--per_device_train_batch_size')";
  CHECK(cli::draft_job(words, facts, wishes).target.empty());
  facts.script_text = "SFTConfig";
  facts.config_text = "";
  const JobDraft unknown = cli::draft_job(words, facts, wishes);
  CHECK_FALSE(unknown.plans);
  CHECK_THAT(unknown.remarks.front(), Contains("no plan is written: the model is not known"));
  CHECK(unknown.usual);
}

TEST_CASE("plans of a command whose model has experts are refused by name", "[experts]") {
  const std::string refusal = "no plan is written: models with experts are not priced yet: ";
  const JobDraft megatron = draft(
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 64 --max-position-embeddings 64 --vocab-size 100 --micro-batch-size 2 --num-experts 4",
      "");
  CHECK_FALSE(megatron.plan);
  CHECK_THAT(megatron.remarks.front(), Contains(refusal) && Contains("4 experts of which 2 are active"));
  CommandFacts facts;
  facts.directory = ".";
  facts.script_text = "HfArgumentParser(TrainingArguments)";
  const Words words{"python3", "t.py", "--block_size", "64", "--per_device_train_batch_size", "2"};
  facts.plan_file = PlanFile{"", "the command", "transformers", {words.begin() + 2, words.end()}};
  facts.config_path = "m/config.json";
  facts.config_text =
      R"({"model_type": "mixtral", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
          "intermediate_size": 96, "vocab_size": 100, "num_local_experts": 8, "num_experts_per_tok": 2})";
  const JobDraft trainer = cli::draft_job(words, facts, {});
  CHECK_FALSE(trainer.plan);
  CHECK_THAT(trainer.remarks.front(), Contains(refusal) && Contains("8 experts of which 2 are active"));
}

TEST_CASE("a LightningCLI's command is tuned by plans, and keeps its other words and its file") {
  const std::string line =
      "torchrun --nproc_per_node 2 t.py fit --config c.yaml --data.batch_size 8 --trainer.default_root_dir ck "
      "--trainer.max_steps 50 --trainer.precision bf16-mixed";
  const Words words = shell_words(line, "line").value();
  CommandFacts facts;
  facts.directory = ".";
  facts.script_text = "LightningCLI(Module)";
  facts.hook = "/client/watch_hook";
  facts.plan_file = PlanFile{"trainer:\n  logger: false\n", "c.yaml", "lightning", {words.begin() + 4, words.end()}};
  const auto model = model_from_hf(
      R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 64, "vocab_size": 100})",
      "config.json", {64, 16}, "t");
  facts.model_text = to_json(model.value());
  facts.model_path = "model.json";
  cli::DraftWishes wishes;
  wishes.tune = true;
  const JobDraft made = cli::draft_job(words, facts, wishes);
  CHECK(made.unread.empty());
  CHECK(made.plans);
  const Job job = job_of(made);
  CHECK(job.target == "lightning");
  CHECK(job.train ==
        rank_words({"python3", "-u", "t.py", "fit", "--config", "c.yaml", "--trainer.default_root_dir", "{checkpoint}",
                    "--trainer.max_steps", "{steps}", "--trainer.precision", "bf16-mixed", "{target_arguments}"}));

  facts.plan_file->text =
      "trainer:\n  strategy:\n    class_path: DDPStrategy\n    init_args:\n      static_graph: true\n";
  const JobDraft lost = cli::draft_job(words, facts, wishes);
  REQUIRE(lost.unread.size() == 1);
  CHECK_THAT(lost.unread.front(), Contains("c.yaml says beyond the plan: trainer.strategy.init_args.static_graph"));
}

TEST_CASE("what accelerate's launcher would tell its ranks is in their environment") {
  CommandFacts facts;
  facts.directory = ".";
  facts.launcher_environment = {{"ACCELERATE_MIXED_PRECISION", "bf16"}};
  facts.launcher_unread = {"dynamo_config"};
  const JobDraft made = cli::draft_job(
      shell_words("accelerate launch --num_processes 2 --mixed_precision bf16 --tee 3 t.py", "line").value(), facts,
      {});
  CHECK(job_of(made).environment.at("ACCELERATE_MIXED_PRECISION") == "bf16");
  REQUIRE(made.unread.size() == 2);
  CHECK_THAT(made.unread.at(0), Contains("accelerate's dynamo_config"));
  CHECK_THAT(made.unread.at(1), Contains("accelerate's --tee"));
}

TEST_CASE("a command is tuned by its own knobs, in the places that Trimtab sets") {
  const JobDraft made = tuned("torchrun --nproc_per_node 2 t.py --output_dir=ck --max-steps 50 --workers 2",
                              {"arg:--workers=2,4", "A=1,2@exact", "both=env:B=1 env:C=2,env:B=2 env:C=1"});
  CHECK(made.tunes);
  CHECK(made.saves);
  CHECK(made.counts);
  CHECK_FALSE(made.usual);
  const Job job = job_of(made);
  CHECK(job.mode == JobMode::kAuto);
  CHECK(job.delivery == Delivery::kRestart);
  CHECK(job.target.empty());
  CHECK(job.checkpoint == "/w/ck");
  CHECK(job.train ==
        rank_words({"python3", "-u", "t.py", "--output_dir={checkpoint}", "--max-steps", "{steps}", "--workers", "2"}));
  CHECK(job.environment.at("TRIMTAB_WATCH") == "1");
  CHECK(job.environment.at("PYTHONPATH") == "/client/watch_hook:/client");
  REQUIRE(job.own_knobs.size() == 3);
  const auto exact = std::ranges::find(job.own_knobs, "env:A", &OwnKnob::name);
  REQUIRE(exact != job.own_knobs.end());
  CHECK(exact->change_class == "exact");
  const auto both = std::ranges::find(job.own_knobs, "both", &OwnKnob::name);
  REQUIRE(both != job.own_knobs.end());
  CHECK(both->values.at(1) == OwnSettings{{"env:B", "2"}, {"env:C", "1"}});
  CHECK(check_own_knobs(job).ok());
}

TEST_CASE("what a command does not say about its checkpoints and steps is known to be missing") {
  CHECK_FALSE(tuned("python3 t.py --max-steps 50", {"A=1,2"}).saves);
  CHECK(tuned("python3 t.py --dir {checkpoint} --max-steps 50", {"A=1,2"}).saves);
  CHECK_FALSE(tuned("python3 t.py --output-dir ck", {"A=1,2"}).counts);
}

TEST_CASE("where nobody names a knob the usual ones are tried: microbatches of as many samples a step, and threads") {
  const JobDraft made = tuned(
      "torchrun --nproc_per_node 2 t.py --output_dir ck --max_steps 50 --per_device_train_batch_size 4 "
      "--gradient_accumulation_steps 2");
  CHECK(made.usual);
  CHECK(made.tunes);
  const Job job = job_of(made);
  REQUIRE(job.own_knobs.size() == 2);
  const auto batch = std::ranges::find(job.own_knobs, "microbatch", &OwnKnob::name);
  REQUIRE(batch != job.own_knobs.end());
  REQUIRE(batch->values.size() == 4);
  const auto is_of = [&](std::size_t at) { return batch->values[at].at("arg:--per_device_train_batch_size"); };
  CHECK(std::vector{is_of(0), is_of(1), is_of(2), is_of(3)} == std::vector<std::string>{"4", "8", "2", "1"});
  for (const OwnSettings& value : batch->values) {
    CHECK(std::stoi(value.at("arg:--per_device_train_batch_size")) *
              std::stoi(value.at("arg:--gradient_accumulation_steps")) ==
          8);
  }
  const auto threads = std::ranges::find(job.own_knobs, "env:OMP_NUM_THREADS", &OwnKnob::name);
  REQUIRE(threads != job.own_knobs.end());
  CHECK(threads->values.size() == 3);  // 1, 2 and 4 of 8 for two ranks
  CHECK_FALSE(tuned("python3 t.py --output_dir ck --max_steps 50", {"A=1,2"}).usual);
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

TEST_CASE("a process that no launcher starts is told no rank, which scripts take for a job of several") {
  const Job job = job_of(tuned("python3 t.py --out_dir=ck --max_iters=9", {"arg:--batch_size=4,8"}));
  CHECK(job.world_size == 1);
  CHECK(job.train == Words{"python3", "-u", "t.py", "--out_dir={checkpoint}", "--max_iters={steps}"});
  CHECK_FALSE(job.environment.contains("MASTER_PORT"));
}

TEST_CASE("ranks meet where the command says, else at the port that was found free") {
  CommandFacts facts;
  facts.directory = ".";
  facts.meeting_port = 30000;
  const auto port = [&](const std::string& line) {
    return job_of(cli::draft_job(shell_words(line, "line").value(), facts)).environment.at("MASTER_PORT");
  };
  CHECK(port("torchrun --nproc_per_node 2 t.py") == "30000");
  CHECK(port("MASTER_PORT=5 torchrun --nproc_per_node 2 t.py") == "5");
}

TEST_CASE("a shell script and odd words stand in the file as they were given") {
  const JobDraft made = draft("bash 'my \"odd\" train.sh' 4", "torchrun ...");
  const Job job = job_of(made);
  CHECK(job.train == Words{"bash", "my \"odd\" train.sh", "4"});
  CHECK(job.name == "my--odd--train");
  CHECK_THAT(made.remarks.front(), Contains("once for each rank"));
}

TEST_CASE("what a tuned job would lack of its command is named") {
  const auto unread = [](const std::string& line) { return tuned(line, {"A=1,2"}).unread; };
  CHECK(unread("torchrun --nproc_per_node 2 t.py --output_dir ck --max_steps 5").empty());
  CHECK(unread("accelerate launch --num_processes 2 --main_process_port 1 t.py --output_dir ck").empty());
  const auto mixed = unread("accelerate launch --num_processes 2 --mixed_precision bf16 t.py --output_dir ck");
  REQUIRE(mixed.size() == 1);
  CHECK_THAT(mixed.front(), Contains("--mixed_precision"));
  CHECK_FALSE(unread("accelerate launch --config_file a.yaml t.py").empty());
  CHECK_THAT(unread("torchrun --nproc_per_node gpu t.py").at(0), Contains("how many ranks"));
  CommandFacts incomplete;
  incomplete.directory = ".";
  incomplete.no_hook = "it is missing";
  cli::DraftWishes wishes;
  wishes.tune = true;
  wishes.own_knobs.push_back(parse_own_knob("A=1,2").value());
  const JobDraft unwatched = cli::draft_job({"python3", "t.py"}, incomplete, wishes);
  REQUIRE(unwatched.unread.size() == 1);
  CHECK_THAT(unwatched.unread.front(), Contains("tell its steps") && Contains("it is missing"));
}

TEST_CASE("of an option that is given twice the last value counts") {
  const JobDraft made = tuned("python3 t.py --output_dir a --output_dir b --max_steps 5 --max_steps 7", {"A=1,2"});
  const Job job = job_of(made);
  CHECK(job.steps == 7);
  CHECK(job.checkpoint == "/w/b");
}
