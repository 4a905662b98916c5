#include "init/command_reading.hpp"

#include <catch2/catch.hpp>

#include "schema/launch_script.hpp"

using namespace trimtab;
using cli::CommandReading;
using cli::read_command;

namespace {

CommandReading read(const std::string& line) {
  return read_command(shell_words(line, "line").value());
}

}  // namespace

TEST_CASE("a command line says who launches, how many, and which script") {
  struct Case {
    std::string line;
    std::string launcher;  // the innermost
    std::optional<std::int32_t> ranks;
    std::string interpreter;
    std::string script;
  };
  const std::optional<std::int32_t> unknown;
  for (const Case& one : std::vector<Case>{
           {"python3 train.py --lr 3", "", 1, "python3", "train.py"},
           {"/opt/venv/bin/python -u -X faulthandler 'my dir/train.py'", "", 1, "/opt/venv/bin/python",
            "my dir/train.py"},
           {"torchrun --nproc_per_node=4 --standalone train.py --steps 9", "torchrun", 4, "", "train.py"},
           {"torchrun --standalone --nproc-per-node 4 --nnodes 1:2 train.py", "torchrun", 8, "", "train.py"},
           {"torchrun train.py", "torchrun", 1, "", "train.py"},
           {"torchrun --nnodes 2000000000 --nproc_per_node 2000000000 train.py", "torchrun", 2147483647, "",
            "train.py"},
           {"OMP_NUM_THREADS=1 nohup python -m torch.distributed.run --nproc_per_node 2 --tee 3 a/train.py", "torchrun",
            2, "python", "a/train.py"},
           {"accelerate launch --multi_gpu --num_processes 8 --mixed_precision bf16 train.py --x", "accelerate", 8, "",
            "train.py"},
           {"accelerate launch train.py", "accelerate", unknown, "", "train.py"},
           {"deepspeed --num_gpus=2 train.py --deepspeed", "deepspeed", 2, "", "train.py"},
           {"srun -N 2 --ntasks-per-node=4 -u python train.py", "srun", 8, "python", "train.py"},
           {"srun -N 2 -n 2 torchrun --nproc_per_node 8 --rdzv_endpoint h:1 train.py", "torchrun", 16, "", "train.py"},
           {"mpirun --allow-run-as-root -np 3 -x PATH python3 train.py", "mpirun", 3, "python3", "train.py"},
           {"env A=1 B=2 timeout 60 bash -e train.sh 4", "", 1, "", "train.sh"},
           {"./train.sh", "", 1, "", "./train.sh"},
           {"python3 -m trimtab.megatron /m/pretrain_gpt.py --num-layers 2", "", 1, "python3", "/m/pretrain_gpt.py"}}) {
    const CommandReading reading = read(one.line);
    INFO(one.line);
    CHECK((reading.launchers.empty() ? "" : reading.launchers.back()) == one.launcher);
    CHECK(reading.world_size() == one.ranks);
    CHECK(reading.interpreter == one.interpreter);
    CHECK(reading.script == one.script);
  }
}

TEST_CASE("a module, an environment and a script's own options are told apart") {
  const CommandReading reading = read("env A=1 PYTHONPATH=src torchrun --nproc_per_node 2 -m pkg.train --steps 5 -x");
  CHECK(reading.module == "pkg.train");
  CHECK(reading.script.empty());
  CHECK(reading.environment == std::map<std::string, std::string>{{"A", "1"}, {"PYTHONPATH", "src"}});
  CHECK(reading.script_options == std::vector<std::string>{"--steps", "5", "-x"});
  const CommandReading program = read("./trainer --gpus 8");
  CHECK(program.program == "./trainer");
  CHECK(program.script_options == std::vector<std::string>{"--gpus", "8"});
  CHECK(read_command({}).rank_words.empty());
  CHECK(read("torchrun --nproc_per_node 2").rank_words.empty());
}
