#include "init/script_command.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using cli::launch_in_script;

namespace {

using Words = std::vector<std::string>;

constexpr const char* kMegatronLike = R"(#!/bin/bash
#SBATCH --nodes=2
export CUDA_DEVICE_MAX_CONNECTIONS=1
PYTHONPATH=/opt/megatron
export PYTHONPATH
GPUS=8
python3 tools/preprocess_data.py --workers 4
MODEL_ARGS=(
    --num-layers 12   # small
    --hidden-size 512
)
torchrun --nproc_per_node $GPUS pretrain_gpt.py ${MODEL_ARGS[@]} --micro-batch-size 4
export LATER=1
python3 tools/report.py
)";

}  // namespace

TEST_CASE("the launch inside a shell script is found, with what the script set and exported") {
  const auto launch = launch_in_script(kMegatronLike, "train.sh");
  REQUIRE(launch);
  CHECK(launch->words == Words{"CUDA_DEVICE_MAX_CONNECTIONS=1", "PYTHONPATH=/opt/megatron", "torchrun",
                               "--nproc_per_node", "8", "pretrain_gpt.py", "--num-layers", "12", "--hidden-size", "512",
                               "--micro-batch-size", "4"});
  CHECK(launch->line == 12);
  CHECK(launch->unknown.empty());
}

TEST_CASE("without a launcher the last Python script or module is taken") {
  const auto launch = launch_in_script("python3 prepare.py\npython3 -m train.main --lr 1\necho done\n", "train.sh");
  REQUIRE(launch);
  CHECK(launch->words == Words{"python3", "-m", "train.main", "--lr", "1"});
}

TEST_CASE("what only a run can tell is named") {
  const auto launch = launch_in_script(
      "export MASTER_ADDR=$(hostname)\nif test -d x; then export MODE=a; else export MODE=b; fi\n"
      "srun -N $NODES torchrun --nproc_per_node 2 train.py --save $1\n",
      "train.sh");
  REQUIRE(launch);
  CHECK(launch->words.front() == "srun");
  CHECK(launch->unknown == Words{"MASTER_ADDR=$(hostname)", "MODE=$MODE", "$NODES", "$1"});
}

TEST_CASE("a script that launches no Python, or that is none, holds no launch") {
  CHECK_FALSE(launch_in_script("echo hello\nsrun hostname\n", "train.sh"));
  CHECK_FALSE(launch_in_script("", "train.sh"));
  CHECK_FALSE(launch_in_script("torchrun 'train.py", "train.sh"));
}
